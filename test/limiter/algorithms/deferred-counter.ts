// A counter with its debt, as a store keeps both.

import { type Decision, emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import {
  admitsWithDebt,
  chargeDeferred,
  type Debt,
  movesWithClock,
  standsFromUs,
} from "../../../limiter/src/algorithms/deferred-charge.ts";
import { memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import type { Rate } from "../../../limiter/src/algorithms/rate.ts";
import { copyOf } from "./counter.ts";

export class DeferredCounter {
  rate: Rate;
  state = memoryCounter();
  debt: Debt = { paidAtUs: 0, sinceUs: 0, quota: 1 };

  constructor(rate: Rate) {
    this.rate = rate;
  }

  /** Returns whether a request with unknown units may go on. Charges nothing. */
  ask(nowUs: number): Decision {
    const state = copyOf(this.state);
    state.stepped = false;
    const decision = emptyDecision();
    const fromUs = standsFromUs(this.rate, this.debt, nowUs);
    admitsWithDebt(this.rate, state, memoryRing, nowUs, fromUs, decision);
    if (state.stepped) this.state = state;
    if (movesWithClock(this.rate, this.debt, nowUs)) {
      this.debt = { paidAtUs: fromUs, sinceUs: nowUs, quota: this.rate.quota };
    }
    return decision;
  }

  /** @returns how many of the units were beyond what was left */
  chargeDeferred(nowUs: number, units: number): number {
    const fromUs = standsFromUs(this.rate, this.debt, nowUs);
    const before = emptyDecision();
    admitsWithDebt(this.rate, this.state, memoryRing, nowUs, fromUs, before);
    const paidAtUs = chargeDeferred(this.rate, this.state, memoryRing, fromUs, units);
    if (paidAtUs > nowUs) this.debt = { paidAtUs, sinceUs: nowUs, quota: this.rate.quota };
    return Math.max(units - before.remaining, 0);
  }
}
