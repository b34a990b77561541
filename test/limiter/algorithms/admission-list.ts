// A model of the sliding algorithms without regard for memory: a list of everything that was admitted, in which each request
// sums what still counts.

import { type Decision, never } from "../../../limiter/src/algorithms/decision.ts";
import type { LegalLimit } from "../legal-limits.ts";

interface Admission {
  /** Number of the tick in which it was admitted. */
  readonly tick: number;
  units: number;
}

export class AdmissionList {
  quota: number;
  readonly #tickUs: number;
  /** The number of further ticks after which a tick no longer counts. */
  readonly #counted: number;
  readonly #holds: boolean;
  #admissions: Admission[] = [];

  constructor(limit: LegalLimit) {
    this.quota = limit.quota;
    this.#tickUs = tickUsOf(limit);
    this.#holds = limit.algorithm === "concurrency";
    // What was charged in the last µs of a tick still counts at the µs that is windowUs − 1 later, and no longer.
    this.#counted = this.#holds ? 9 : Math.floor((this.#tickUs - 1 + limit.windowUs - 1) / this.#tickUs);
  }

  ask(nowUs: number, cost: number): Decision {
    const tick = Math.floor(nowUs / this.#tickUs);
    this.#admissions = this.#admissions.filter((one) => tick - one.tick <= this.#counted);
    const used = this.#used();
    const allowed = used + cost <= this.quota;
    if (allowed) this.#admissions.push({ tick, units: cost });
    const newest = this.#admissions.at(-1);
    return {
      allowed,
      limit: this.quota,
      remaining: Math.max(0, this.quota - this.#used()),
      retryAfterUs: allowed ? 0 : this.#retryAfterUs(nowUs, cost, used),
      resetAfterUs: newest === undefined || this.#used() === 0 ? 0 : this.#endUs(newest) - nowUs,
      delayUs: 0,
    };
  }

  /** Removes up to `units` from what was admitted in the tick at `us`. */
  refund(us: number, units: number): void {
    let left = units;
    for (const one of this.#admissions) {
      if (one.tick !== Math.floor(us / this.#tickUs)) continue;
      const returned = Math.min(left, one.units);
      one.units -= returned;
      left -= returned;
    }
  }

  #retryAfterUs(nowUs: number, cost: number, used: number): number {
    if (cost > this.quota) return never;
    // A slot may be freed at any moment.
    if (this.#holds) return 0;
    let missing = used + cost - this.quota;
    for (const one of this.#admissions) {
      missing -= one.units;
      if (missing <= 0) return this.#endUs(one) - nowUs;
    }
    throw new Error(`${cost} of ${this.quota} could be had, and were not`);
  }

  #used(): number {
    return this.#admissions.reduce((sum, { units }) => sum + units, 0);
  }

  #endUs({ tick }: Admission): number {
    return (tick + this.#counted + 1) * this.#tickUs;
  }
}

/** @returns a tick's length; for a sliding-log, 1 µs or the least power of two with at most 2^30 ticks in a window */
export function tickUsOf({ algorithm, windowUs, precisionUs }: LegalLimit): number {
  if (algorithm === "sliding-window") return precisionUs;
  if (algorithm === "concurrency") return windowUs / 10;
  return 2 ** Math.max(0, Math.ceil(Math.log2(windowUs / 2 ** 30)));
}
