// The textbook's bucket in exact arithmetic: a level in units × window, with whole numbers only. A leaky bucket has one more
// unit of room, and the wait until those before have departed.

import { type Decision, never } from "../../../limiter/src/algorithms/decision.ts";
import { capacityOf, type LegalLimit } from "../legal-limits.ts";

export class ExactBucket {
  readonly #quota: bigint;
  readonly #window: bigint;
  readonly #full: bigint;
  readonly #capacity: number;
  readonly #shapes: boolean;
  #level: bigint;
  #nowUs = 0n;

  constructor(limit: LegalLimit) {
    this.#capacity = capacityOf(limit);
    this.#shapes = limit.algorithm === "leaky-bucket";
    this.#quota = BigInt(limit.quota);
    this.#window = BigInt(limit.windowUs);
    this.#full = BigInt(this.#capacity) * this.#window;
    this.#level = this.#full;
  }

  ask(nowUs: number, cost: number): Decision {
    const now = BigInt(nowUs);
    const refilled = this.#level + (now - this.#nowUs) * this.#quota;
    this.#level = refilled > this.#full ? this.#full : refilled;
    this.#nowUs = now;
    const asked = BigInt(cost) * this.#window;
    const allowed = asked <= this.#level;
    const waits = ceilDivide(this.#full - this.#level, this.#quota);
    if (allowed) this.#level -= asked;
    const retryAfter = cost > this.#capacity ? never : ceilDivide(asked - this.#level, this.#quota);
    return {
      allowed,
      limit: this.#capacity,
      remaining: Number(this.#level / this.#window),
      retryAfterUs: allowed ? 0 : Number(retryAfter),
      resetAfterUs: Number(ceilDivide(this.#full - this.#level, this.#quota)),
      delayUs: allowed && this.#shapes ? Number(waits) : 0,
    };
  }
}

function ceilDivide(a: bigint, b: bigint): bigint {
  return (a + b - 1n) / b;
}
