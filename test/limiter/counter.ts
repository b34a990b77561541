// A counter as a store keeps it: asked at given times, it answers with the whole decision.

import { emptyState } from "../../limiter/src/algorithms/counter-state.ts";
import { charge, describe, type Rate, refund } from "../../limiter/src/algorithms/rate.ts";
import { type Decision, emptyDecision } from "../../limiter/src/decision.ts";

/** 2023-11-14T22:13:20Z */
export const startUs = 1_700_000_000_000_000;
export const ms = 1_000;
export const second = 1_000_000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;
export const maxUnits = 2 ** 31;

export class Counter {
  readonly state = emptyState();
  rate: Rate;

  constructor(rate: Rate) {
    this.rate = rate;
  }

  ask(nowUs: number, cost = 1): Decision {
    const decision = emptyDecision();
    const allowed = charge(this.rate, this.state, nowUs, cost);
    describe(this.rate, this.state, nowUs, cost, allowed, decision);
    return decision;
  }

  allows(nowUs: number, cost = 1): boolean {
    return this.ask(nowUs, cost).allowed;
  }

  /** How many of `requests` at once are allowed. */
  allowedOf(requests: number, nowUs: number, cost = 1): number {
    let allowed = 0;
    for (let i = 0; i < requests; i++) if (this.allows(nowUs, cost)) allowed++;
    return allowed;
  }

  refund(cost: number): void {
    refund(this.rate, this.state, cost);
  }

  /** Another counter in the same state: asking it changes nothing here. */
  copy(): Counter {
    const copy = new Counter(this.rate);
    copy.state.atUs = this.state.atUs;
    copy.state.count = this.state.count;
    return copy;
  }
}
