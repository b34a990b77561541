// A counter as a store keeps it: each call at a given time returns the whole decision.

import { expect } from "vitest";
import { type Decision, emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { type MemoryCounter, memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { admits, charge, describe, type Rate, refund } from "../../../limiter/src/algorithms/rate.ts";

/** 2023-11-14T22:13:20Z */
export const startUs = 1_700_000_000_000_000;
export const ms = 1_000;
export const second = 1_000_000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;
export const maxUnits = 2 ** 31;

export class Counter {
  state = memoryCounter();
  rate: Rate;

  constructor(rate: Rate) {
    this.rate = rate;
  }

  /** The part of the state that every store keeps; only the sliding algorithms have a ring. */
  get head(): { atUs: number; count: number } {
    return { atUs: this.state.atUs, count: this.state.count };
  }

  ask(nowUs: number, cost = 1): Decision {
    return this.#decide(nowUs, cost, true);
  }

  /** @returns what `ask` would return */
  peek(nowUs: number, cost = 1): Decision {
    return this.#decide(nowUs, cost, false);
  }

  allows(nowUs: number, cost = 1): boolean {
    return this.ask(nowUs, cost).allowed;
  }

  /** @returns how many of `requests` at once are allowed */
  allowedOf(requests: number, nowUs: number, cost = 1): number {
    let allowed = 0;
    for (let i = 0; i < requests; i++) if (this.allows(nowUs, cost)) allowed++;
    return allowed;
  }

  /** @param chargedAtUs the head's moment right after the charge; default: that of the last charge */
  refund(cost: number, nowUs: number, chargedAtUs = this.state.atUs): void {
    refund(this.rate, this.state, memoryRing, nowUs, chargedAtUs, cost);
  }

  /** @returns another counter with the same state; calls of it change nothing here */
  copy(): Counter {
    const copy = new Counter(this.rate);
    copy.state = copyOf(this.state);
    return copy;
  }

  #decide(nowUs: number, cost: number, commits: boolean): Decision {
    const decision = emptyDecision();
    this.state.stepped = false;
    const allowed = admits(this.rate, this.state, memoryRing, nowUs, cost);
    if (allowed && commits) charge(this.rate, this.state, memoryRing);
    describe(this.rate, this.state, memoryRing, nowUs, cost, allowed, decision);
    return decision;
  }
}

/** Expects two decisions to be equal. It is for tests that compare very many: vitest's own comparison takes most of their time. */
export function expectSame(actual: Decision, expected: Decision): void {
  for (const name of Object.keys(expected) as (keyof Decision)[]) {
    if (actual[name] !== expected[name]) expect(actual).toEqual(expected);
  }
}

export function copyOf(state: MemoryCounter): MemoryCounter {
  return { ...state, ticks: [...state.ticks], starts: [...state.starts] };
}
