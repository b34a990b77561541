// The memory of refusals: while a limit is known to refuse a counter, its checks need no request. What is remembered is at most
// as old as `rememberRefusalsMs`, so a reset by an operator is seen after that at the latest.

import type { Check } from "./checks.ts";
import type { Decision } from "./decision.ts";

interface Refusal {
  readonly cost: number | undefined;
  readonly decision: Decision;
  readonly sentAtMs: number;
  readonly untilMs: number;
}

export class Refusals {
  readonly #longestMs: number;
  readonly #most: number;
  /** By counter, the oldest first. */
  readonly #refusals = new Map<string, Refusal>();

  constructor(longestMs: number, most: number) {
    this.#longestMs = longestMs;
    this.#most = most;
  }

  /** Returns the decision that the gateway would take; undefined: ask it. */
  recall(check: Check): Decision | undefined {
    if (this.#refusals.size === 0) return undefined;
    const counter = counterOf(check);
    const refusal = this.#refusals.get(counter);
    if (refusal === undefined) return undefined;
    const nowMs = performance.now();
    if (nowMs >= refusal.untilMs) {
      this.#refusals.delete(counter);
      return undefined;
    }
    if (!costsAsMuch(check.cost, refusal.cost)) return undefined;
    const { retryAfter, resetAfter, ...rest } = refusal.decision;
    const left = (seconds: number) => Math.max(0, Math.ceil(seconds - (nowMs - refusal.sentAtMs) / 1000));
    return {
      ...rest,
      ...(typeof retryAfter === "number" ? { retryAfter: left(retryAfter) } : {}),
      ...(resetAfter === undefined ? {} : { resetAfter: resetAfter === null ? null : left(resetAfter) }),
      source: "memory",
    };
  }

  /**
   * Learns from the gateway's decision of a check. A slow answer does not prolong the refusal, because its time counts from the request.
   */
  learn(check: Check, decision: Decision, sentAtMs: number): void {
    if (decision.source !== "gateway") return;
    if (decision.allowed) {
      this.forget(check);
      return;
    }
    if (typeof decision.retryAfter !== "number" || decision.reason !== undefined) return;
    const counter = counterOf(check);
    this.#refusals.delete(counter);
    // The gateway rounds up, so the last second may be over already.
    const lastsMs = Math.min(this.#longestMs, (decision.retryAfter - 1) * 1000);
    if (sentAtMs + lastsMs <= performance.now()) return;
    this.#refusals.set(counter, { cost: check.cost, decision, sentAtMs, untilMs: sentAtMs + lastsMs });
    if (this.#refusals.size <= this.#most) return;
    for (const oldest of this.#refusals.keys()) {
      this.#refusals.delete(oldest);
      return;
    }
  }

  forget(check: Check): void {
    if (this.#refusals.size > 0) this.#refusals.delete(counterOf(check));
  }
}

function counterOf({ policy, key, plan }: Check): string {
  return JSON.stringify([policy, key, plan]);
}

/** An absent cost is the policy's own, which nobody here knows: it is comparable with itself alone. */
function costsAsMuch(cost: number | undefined, refused: number | undefined): boolean {
  return cost === undefined || refused === undefined ? cost === refused : cost >= refused;
}
