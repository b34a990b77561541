// A counter of one limit; requests take units from it one after the other, and the tests read what is left.

import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import {
  admits,
  charge,
  describe as describeCounter,
  type Rate,
  rateOf,
} from "../../../limiter/src/algorithms/rate.ts";

export function takenCounter(algorithm: Algorithm, quota: number, windowUs: number) {
  const rate: Rate = rateOf({ algorithm, quota, windowUs, burst: quota, precisionUs: windowUs / 10 });
  const state = memoryCounter();
  const take = (atUs: number, units: number) => {
    const allowed = admits(rate, state, memoryRing, atUs, units);
    if (allowed) charge(rate, state, memoryRing);
    return allowed;
  };
  const left = (atUs: number) => {
    const decision = emptyDecision();
    describeCounter(rate, state, memoryRing, atUs, 1, admits(rate, state, memoryRing, atUs, 1), decision);
    return decision.remaining;
  };
  return { rate, state, take, left };
}
