// The socket of one gateway. A gateway that reads more slowly than operators write gets the newest snapshot when it is
// ready, never a queue of old ones: at most one frame waits in memory.

import type { ControlMessage } from "@sluice/limiter/protocol/push-messages.ts";
import type { WebSocket } from "ws";
import type { SnapshotFrame } from "./snapshot-frame.ts";

/** Codes with which we close a socket: those of RFC 6455, and 4000 of our own. */
export const closeCodes = { goingAway: 1001, refused: 1008, tooBig: 1009, replaced: 4000 } as const;

const mostFrameBytes = 65_536;

export class GatewayLink {
  readonly #socket: WebSocket;
  readonly #onSent: (bytes: number) => void;
  #sending = false;
  #next: SnapshotFrame | undefined;
  #lastSeenMs: number;

  /** @param onSent called for each snapshot that was sent, with its size */
  constructor(socket: WebSocket, onSent: (bytes: number) => void) {
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

  /**
   * Pings the gateway, or cuts the socket when nothing has come from the gateway for `silenceMs`: a lost host sends no TCP
   * reset.
   */
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
    // One message is sent in many frames: a gateway reads a frame in one go, and a large one would delay its requests.
    let from = 0;
    for (; bytes.length - from > mostFrameBytes; from += mostFrameBytes) {
      this.#socket.send(bytes.subarray(from, from + mostFrameBytes), { binary: false, fin: false });
    }
    this.#socket.send(bytes.subarray(from), { binary: false }, (error) => {
      this.#sending = false;
      if (error !== undefined && error !== null) return;
      this.#onSent(bytes.length);
      this.#flush();
    });
  }
}
