// Counts requests by key with the limiter's own token bucket, in bounded memory. A counter is dropped only when it is like one
// that was never used. If there is no room, new keys share a few counters: nobody gets a fresh counter by sending under many
// other keys.

import { createHash, randomBytes } from "node:crypto";
import { type CounterState, emptyState } from "@sluice/limiter/algorithms/counter-state.ts";
import { type Decision, emptyDecision } from "@sluice/limiter/algorithms/decision.ts";
import {
  admitsTokenBucket,
  describeTokenBucket,
  refundTokenBucket,
  type TokenBucket,
  tokenBucket,
} from "@sluice/limiter/algorithms/token-bucket.ts";
import type { Allowance } from "./allowance.ts";

const secondUs = 1_000_000;
/** A counter with its key takes some 250 bytes. */
const defaultMost = 10_000;
const sharedCounters = 64;
/** How many of the oldest counters are looked at for each new key: more than one, so that the table shrinks again. */
const lookedAt = 4;

export class Counters {
  readonly #allowance: Allowance;
  #rate: TokenBucket;
  readonly #nowMs: () => number;
  readonly #most: number;
  readonly #states = new Map<string, CounterState>();
  readonly #shared: CounterState[] = Array.from({ length: sharedCounters }, emptyState);
  /** Keeps others from choosing keys that share a counter with a certain one. */
  readonly #secret = randomBytes(16);

  /**
   * @param nowMs returns milliseconds of a clock that never steps back
   * @param most the most keys that have a counter of their own
   */
  constructor(allowance: Allowance, nowMs: () => number, most = defaultMost) {
    this.#allowance = allowance;
    this.#rate = shareOf(allowance, 1);
    this.#nowMs = nowMs;
    this.#most = most;
  }

  get rate(): TokenBucket {
    return this.#rate;
  }

  /**
   * From now on, a key may use its part of the allowance here. What it has used stays used, in the same proportion.
   * @param parts from 1 on
   */
  shareAmong(parts: number): void {
    this.#rate = shareOf(this.#allowance, parts);
  }

  /** The number of keys that have a counter of their own. */
  get size(): number {
    return this.#states.size;
  }

  /** Charges one request to the key, if that is within the rate. */
  take(key: string): Decision {
    const nowUs = this.#nowUs();
    const state = this.#states.get(key) ?? this.#newState(key, nowUs);
    const allowed = admitsTokenBucket(this.rate, state, nowUs, 1);
    if (allowed) {
      state.atUs = state.nextAtUs;
      state.count = state.nextCount;
    }
    return this.#described(state, nowUs, allowed);
  }

  /** Refunds a request that was charged to the key. */
  refund(key: string): void {
    const state = this.#states.get(key) ?? this.#sharedBy(key);
    refundTokenBucket(this.rate, state, this.#nowUs(), state.atUs, 1);
  }

  #described(state: CounterState, nowUs: number, allowed: boolean): Decision {
    const decision = emptyDecision();
    decision.allowed = allowed;
    describeTokenBucket(this.rate, state, nowUs, 1, decision);
    return decision;
  }

  #newState(key: string, nowUs: number): CounterState {
    if (this.#isFull(nowUs)) return this.#sharedBy(key);
    const state = emptyState();
    this.#states.set(key, state);
    return state;
  }

  /** Drops some of the oldest counters if they are like new ones. @returns whether there is no room for another counter */
  #isFull(nowUs: number): boolean {
    let looked = 0;
    for (const [key, state] of this.#states) {
      if (looked === lookedAt) break;
      looked += 1;
      this.#states.delete(key);
      // Those in use go to the end, so that others are looked at the next time.
      if (state.atUs > nowUs) this.#states.set(key, state);
    }
    return this.#states.size >= this.#most;
  }

  #sharedBy(key: string): CounterState {
    const digest = createHash("sha256").update(this.#secret).update(key).digest();
    return this.#shared[digest.readUInt32BE() % sharedCounters] as CounterState;
  }

  #nowUs(): number {
    return Math.floor(this.#nowMs() * 1_000);
  }
}

/** A state is a time until the bucket is full again, so it means the same in a bucket that is smaller and fills more slowly. */
function shareOf({ perSecond, burst }: Allowance, parts: number): TokenBucket {
  return tokenBucket(perSecond, secondUs * parts, Math.max(1, Math.floor(burst / parts)));
}
