// One gateway's socket. A gateway that reads slower than operators write gets the newest snapshot when it is ready for
// one, never a queue of stale ones: what waits in memory is bounded by one frame.

import type { ControlMessage } from "@sluice/limiter/protocol/push-messages.ts";
import type { WebSocket } from "ws";
import type { SnapshotFrame } from "./snapshot-frame.ts";

/** Why we close a socket: RFC 6455, and 4000 of our own. */
export const closeCodes = { goingAway: 1001, refused: 1008, tooBig: 1009, replaced: 4000 } as const;

const mostFrameBytes = 65_536;

export class GatewayLink {
  readonly #socket: WebSocket;
  readonly #onSent: () => void;
  #sending = false;
  #next: SnapshotFrame | undefined;
  #lastSeenMs: number;

  /** @param onSent called for each snapshot that went out */
  constructor(socket: WebSocket, onSent: () => void) {
    this.#socket = socket;
    this.#onSent = onSent;
    this.#lastSeenMs = performance.now();
    socket.on("pong", () => this.noteAlive());
  }

  noteAlive(): void {
    this.#lastSeenMs = performance.now();
  }

  sendSnapshot(frame: SnapshotFrame): void {
    this.#next = frame;
    if (!this.#sending) this.#flush();
  }

  send(message: Exclude<ControlMessage, { type: "snapshot" }>): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  /** Pings, or cuts the socket when the other side has not been heard for `silenceMs`: no TCP reset comes from a lost host. */
  ping(silenceMs: number): void {
    if (performance.now() - this.#lastSeenMs >= silenceMs) this.#socket.terminate();
    else if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping();
  }

  close(code: number, reason: string): void {
    this.#next = undefined;
    this.#socket.close(code, reason);
  }

  #flush(): void {
    const frame = this.#next;
    this.#next = undefined;
    if (frame === undefined || this.#socket.readyState !== this.#socket.OPEN) return;
    this.#sending = true;
    const { bytes } = frame;
    // One message in many frames: a gateway takes a frame in one go, and a large one would keep it from its requests.
    let from = 0;
    for (; bytes.length - from > mostFrameBytes; from += mostFrameBytes) {
      this.#socket.send(bytes.subarray(from, from + mostFrameBytes), { binary: false, fin: false });
    }
    this.#socket.send(bytes.subarray(from), { binary: false }, (error) => {
      this.#sending = false;
      if (error !== undefined && error !== null) return;
      this.#onSent();
      this.#flush();
    });
  }
}
