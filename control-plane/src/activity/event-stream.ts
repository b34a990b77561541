// A stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) to one client.

import { Readable } from "node:stream";

/** A client that has left so much unread is cut off: it connects again, and misses only what it could not read. */
const mostUnreadBytes = 1_048_576;

export class EventStream {
  readonly body: Readable;

  /** @param onEnd called once, whoever ends the stream */
  constructor(onEnd: () => void) {
    this.body = new Readable({ read: () => undefined });
    this.body.once("close", onEnd);
    // Says that the stream has begun, through proxies that wait for a first byte, and how soon to connect again.
    this.body.push("retry: 2000\n\n");
  }

  send(event: string, data: unknown): void {
    this.#push(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** Keeps proxies from ending a stream without events. */
  sendNothing(): void {
    this.#push(":\n\n");
  }

  end(): void {
    if (!this.body.destroyed) this.body.push(null);
  }

  #push(text: string): void {
    if (this.body.destroyed || this.body.readableEnded) return;
    this.body.push(text);
    if (this.body.readableLength > mostUnreadBytes) this.body.destroy();
  }
}
