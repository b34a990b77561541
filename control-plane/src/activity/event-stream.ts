// A stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) to one client.

import { Readable } from "node:stream";

/** A client that has left more unread when the next event comes is cut off: it connects again, and misses only what it could not read. */
const mostUnreadBytes = 262_144;

export class EventStream {
  readonly body: Readable;
  #ended = false;

  /** @param onEnd called once, whoever ends the stream */
  constructor(onEnd: () => void) {
    this.body = new Readable({ read: () => undefined });
    this.body.once("close", onEnd);
    // Says that the stream has begun, through proxies that wait for a first byte, and how soon to connect again.
    this.body.push("retry: 2000\n\n");
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
    if (this.#ended || this.body.destroyed) return;
    if (this.body.readableLength > mostUnreadBytes) this.body.destroy();
    else this.body.push(text);
  }
}
