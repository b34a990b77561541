// Measures how long a change takes from the moment when it is stored until every connected gateway has applied or refused it.

import type { Position } from "../storage/epoch.ts";
import type { Fleet } from "./fleet.ts";
import type { Published } from "./publisher.ts";

/** A revision that every connected gateway has applied or refused. Times are by `performance.now()`. */
export interface Pushed<Origin> {
  readonly revision: number;
  readonly bytes: number;
  readonly gateways: number;
  /** When it was stored here, or noticed if another control plane stored it. */
  readonly storedAtMs: number;
  /** When its snapshot was ready to be sent. */
  readonly builtAtMs: number;
  /** To 10 ms. */
  readonly settledAtMs: number;
  /** What the change came from. */
  readonly origin: Origin;
}

interface Pending<Origin> {
  readonly frame: Published;
  readonly storedAtMs: number;
  readonly builtAtMs: number;
  readonly origin: Origin;
}

const lookAfterMs = 10;
/** A gateway that hangs keeps revisions pending; the oldest are forgotten first. */
const mostPending = 1_000;

export class PushDurations<Origin> {
  readonly #fleet: Fleet;
  readonly #newest: () => Position;
  readonly #onPushed: (pushed: Pushed<Origin>) => void;
  #pending: Pending<Origin>[] = [];
  #timer: NodeJS.Timeout | undefined;
  #progressAtMs = 0;

  constructor(fleet: Fleet, newest: () => Position, onPushed: (pushed: Pushed<Origin>) => void) {
    this.#fleet = fleet;
    this.#newest = newest;
    this.#onPushed = onPushed;
    fleet.on("progress", () => {
      this.#progressAtMs = performance.now();
      if (this.#pending.length > 0) this.#lookSoon();
    });
  }

  published(frame: Published, storedAtMs: number, origin: Origin): void {
    this.#pending.push({ frame, storedAtMs, builtAtMs: performance.now(), origin });
    if (this.#pending.length > mostPending) this.#pending.shift();
  }

  /** To look costs a step for each gateway: if thousands report one after the other, not each report is worth a look. */
  #lookSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#settle();
    }, lookAfterMs).unref();
  }

  #settle(): void {
    const newest = this.#newest();
    const settled = this.#fleet.settled(newest);
    const gateways = this.#fleet.connectedCount;
    const settledAtMs = this.#progressAtMs;
    const pending = this.#pending;
    this.#pending = pending.filter(({ frame }) => frame.epoch === newest.epoch && frame.revision > settled);
    if (gateways === 0) return;
    for (const { frame, storedAtMs, builtAtMs, origin } of pending) {
      const { epoch, revision, bytes } = frame;
      if (epoch !== newest.epoch || revision > settled) continue;
      this.#onPushed({ revision, bytes, gateways, storedAtMs, builtAtMs, settledAtMs, origin });
    }
  }
}
