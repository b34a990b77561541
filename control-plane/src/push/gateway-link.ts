// The socket of one gateway. At most one snapshot or delta is on its way to a gateway. The next one follows when the gateway has answered,
// and takes it from what it holds to the newest state: so a slow gateway costs no memory, and holds up nobody. A long text is sent
// piece by piece, as the gateway reads it.

import { type ControlMessage, deltasSince } from "@sluice/limiter/protocol/push-messages.ts";
import type { WebSocket } from "ws";
import type { EditedPosition, Frame, PushedState } from "./pushed-state.ts";

/** Codes with which we close a socket: those of RFC 6455, and 4000 of our own. */
export const closeCodes = { goingAway: 1001, refused: 1008, tooBig: 1009, replaced: 4000 } as const;

const mostFrameBytes = 65_536;
/** A gateway that asks for snapshots again and again gets one in this time. */
const snapshotEveryMs = 1_000;
/** The most messages that wait for the end of a snapshot. Orders that come then are lost, and count as not answered. */
const mostWaiting = 1_000;

/** What is sent, apart from snapshots and deltas. */
type SmallMessage = Exclude<ControlMessage, { type: "snapshot" | "delta" }>;

export interface HeldByGateway {
  readonly position: EditedPosition;
  /** The version of the push protocol that it speaks. */
  readonly protocol: number;
}

export interface LinkEvents {
  /** Called for each snapshot and delta that was sent. */
  onSent(frame: Frame): void;
  /** Called when `push` may have something to do that it could not do before. */
  onFree(): void;
}

/** A clock in milliseconds that is never set. */
export type SteadyClock = () => number;

export class GatewayLink {
  readonly #socket: WebSocket;
  readonly #events: LinkEvents;
  readonly #now: SteadyClock;
  /** Undefined until its hello. */
  #held: HeldByGateway | undefined;
  /** The snapshot or delta that it has not answered yet. */
  #underWay: EditedPosition | undefined;
  /** What it did not take, and need not get again. */
  #refused: EditedPosition | undefined;
  #isSending = false;
  #waiting: { readonly text: string | Buffer; readonly onFlushed: (() => void) | undefined }[] = [];
  #snapshotAtMs = Number.NEGATIVE_INFINITY;
  #snapshotTimer: NodeJS.Timeout | undefined;
  #lastSeenMs: number;

  constructor(socket: WebSocket, events: LinkEvents, now: SteadyClock = () => performance.now()) {
    this.#socket = socket;
    this.#events = events;
    this.#now = now;
    this.#lastSeenMs = now();
    socket.on("pong", () => this.noteAlive());
    socket.on("close", () => clearTimeout(this.#snapshotTimer));
  }

  noteAlive(): void {
    this.#lastSeenMs = this.#now();
  }

  /** What the gateway says that it holds. */
  begin(held: HeldByGateway): void {
    this.#held = held;
  }

  /**
   * Sends what the gateway lacks, unless an answer is due.
   * @returns the position that it is taken to; undefined: nothing was sent
   */
  push(state: PushedState): EditedPosition | undefined {
    const held = this.#held;
    if (held === undefined || this.#underWay !== undefined || this.#socket.readyState !== this.#socket.OPEN)
      return undefined;
    // A gateway of version 1 reads everything that is sent, and says nothing of a revision that one of its workers lacks.
    if (this.#isSending) return undefined;
    const { position } = state;
    if (isHeld(held, state) || (this.#refused !== undefined && isSame(this.#refused, position))) return undefined;
    // It would refuse a revision that is before its own.
    if (held.position.epoch === position.epoch && held.position.revision > position.revision) return undefined;
    const delta = held.protocol >= deltasSince ? state.deltaFrom(held.position) : undefined;
    if (delta === undefined && !this.#maySendSnapshot()) return undefined;
    this.#underWay = position;
    this.#send(delta ?? state.snapshot());
    return position;
  }

  /** Returns what is on its way to the gateway, which it has not answered. */
  get underWay(): EditedPosition | undefined {
    return this.#underWay;
  }

  /**
   * Takes the gateway's answer to what is on its way.
   * @param answer resync: it holds nothing that is known here
   */
  answered({ epoch, revision }: { epoch: string; revision: number }, answer: "taken" | "refused" | "resync"): void {
    const underWay = this.#underWay;
    const held = this.#held;
    if (held === undefined) return;
    if (answer === "resync") {
      this.#underWay = undefined;
      this.#held = { ...held, position: { epoch, revision, edition: undefined, term: undefined } };
      return;
    }
    // It may speak of an earlier revision, as when its last worker has applied it.
    if (underWay === undefined || underWay.epoch !== epoch || underWay.revision !== revision) return;
    this.#underWay = undefined;
    if (answer === "taken") this.#held = { ...held, position: underWay };
    else this.#refused = underWay;
  }

  send(message: SmallMessage): void {
    if (this.#waiting.length < mostWaiting) this.sendText(JSON.stringify(message));
  }

  /**
   * @param text of a whole message, which is not long. A buffer is shared by all links that send it
   * @param onFlushed called when the text has left this process: whoever sends long texts waits for it before the next one
   */
  sendText(text: string | Buffer, onFlushed?: () => void): void {
    // Nothing may come between the frames of one message.
    if (this.#isSending) this.#waiting.push({ text, onFlushed });
    else if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(text, { binary: false }, onFlushed);
  }

  /**
   * Pings the gateway, or cuts the socket when nothing has come from the gateway for `silenceMs`: a lost host sends no TCP
   * reset.
   */
  ping(silenceMs: number): void {
    if (this.#now() - this.#lastSeenMs >= silenceMs) this.#socket.terminate();
    else if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping();
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason);
  }

  #maySendSnapshot(): boolean {
    const waitMs = this.#snapshotAtMs + snapshotEveryMs - this.#now();
    const isOfVersion1 = (this.#held?.protocol ?? 0) < deltasSince;
    if (isOfVersion1 || waitMs <= 0) {
      this.#snapshotAtMs = this.#now();
      return true;
    }
    this.#snapshotTimer ??= setTimeout(() => {
      this.#snapshotTimer = undefined;
      this.#events.onFree();
    }, waitMs);
    return false;
  }

  #send(frame: Frame): void {
    this.#isSending = true;
    const socket = this.#socket;
    const parts = partsOf(frame);
    let part = parts.next();
    const sendNext = (error?: Error | null) => {
      if ((error !== undefined && error !== null) || socket.readyState !== socket.OPEN || part.done === true) {
        this.#sent(frame, part.done === true);
        return;
      }
      const { value } = part;
      part = parts.next();
      // One message is sent in many frames: a gateway reads a frame in one go, and a large one would delay its requests.
      socket.send(value, { binary: false, fin: part.done === true }, sendNext);
    };
    sendNext();
  }

  #sent(frame: Frame, isWhole: boolean): void {
    this.#isSending = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (!isWhole) return;
    this.#events.onSent(frame);
    if (this.#held !== undefined && this.#held.protocol < deltasSince) {
      this.#held = { ...this.#held, position: frame.position };
      this.#underWay = undefined;
    }
    for (const { text, onFlushed } of waiting) this.sendText(text, onFlushed);
    this.#events.onFree();
  }
}

/** A gateway of version 1 knows no editions: as before, its revision is taken for what it is. */
function isHeld({ position: held, protocol }: HeldByGateway, state: PushedState): boolean {
  const { edition } = state.position;
  return isSame(protocol < deltasSince ? { ...held, edition } : held, state.position) && state.hasPassed(held);
}

function isSame(a: EditedPosition, b: EditedPosition): boolean {
  return a.epoch === b.epoch && a.revision === b.revision && a.edition === b.edition;
}

/** Cuts a text into frames: short pieces are joined, long ones are cut. */
function* partsOf({ pieces }: Frame): Generator<Buffer> {
  let joined: Buffer[] = [];
  let bytes = 0;
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; from += mostFrameBytes) {
      const part = piece.subarray(from, from + mostFrameBytes);
      if (bytes + part.length > mostFrameBytes) {
        yield Buffer.concat(joined);
        joined = [];
        bytes = 0;
      }
      joined.push(part);
      bytes += part.length;
    }
  }
  yield Buffer.concat(joined);
}
