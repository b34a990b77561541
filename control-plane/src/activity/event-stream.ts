// A stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) to one client.

import { Readable } from "node:stream";

/** Whoever has left more unread is told nothing until they have read some of it. */
const mostUnreadBytes = 262_144;
/** And whoever was not told so many times, half a minute, is cut off: they connect again, and go on where they were. */
const mostTimesUnread = 120;

export class EventStream {
  readonly body: Readable;
  #ended = false;
  #timesUnread = 0;

  /** @param onEnd called once, whoever ends the stream */
  constructor(onEnd: () => void) {
    this.body = new Readable({ read: () => undefined });
    this.body.once("close", onEnd);
    // Says that the stream has begun, through proxies that wait for a first byte, and how soon to connect again.
    this.body.push("retry: 2000\n\n");
  }

  /** Whether the client has read enough to be told more. */
  get hasRoom(): boolean {
    return this.body.readableLength <= mostUnreadBytes;
  }

  /** To be called four times a second. */
  endIfUnread(): void {
    this.#timesUnread = this.hasRoom ? 0 : this.#timesUnread + 1;
    if (this.#timesUnread > mostTimesUnread) this.body.destroy();
  }

  /** @param id what the client sends as Last-Event-ID when it connects again */
  send(event: string, data: unknown, id?: number): void {
    this.#push(`event: ${event}\ndata: ${JSON.stringify(data)}\n${id === undefined ? "" : `id: ${id}\n`}\n`);
  }

  /** Keeps proxies from ending a stream without events. */
  sendNothing(): void {
    this.#push(":\n\n");
  }

  /** What was sent before is still delivered. */
  end(): void {
    if (this.#ended || this.body.destroyed) return;
    this.#ended = true;
    this.body.push(null);
  }

  #push(text: string): void {
    if (!this.#ended && !this.body.destroyed) this.body.push(text);
  }
}
