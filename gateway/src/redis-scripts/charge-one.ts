// Charges one counter of a known algorithm, the commonest call by far.
//
// KEYS   the counter
// ARGV   quota (units), window (µs), burst (units) or precision (µs), cost (units)
// reply  [1 if allowed else 0, remaining (units), retry after (µs, -1 for never), reset after (µs), delay (µs),
//        the counter's moment (µs): what a refund asks for]
// Time is Redis' own. Atomic as every script is.

import { admits, charge, describe } from "../../../limiter/src/algorithms/rate.ts";
import { emptyDecision } from "../../../limiter/src/decision.ts";
import type { Algorithm } from "../../../limiter/src/policy/policy.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs, saveCounter } from "./counter.ts";

declare const ALGORITHM: Algorithm;

export function chargeOne(keys: string[], argv: string[]): number[] {
  const nowUs = redisTimeUs();
  const rate = rateFrom(ALGORITHM, argv, 0);
  const cost = tonumber(argv[3]) as number;
  const state = counterAt(keys[0] as string);
  loadCounter(rate, state);
  const allowed = admits(rate, state, redisRing, nowUs, cost);
  if (allowed) charge(rate, state, redisRing);
  if (allowed || state.stepped) saveCounter(rate, state, nowUs);
  const decision = emptyDecision();
  describe(rate, state, redisRing, nowUs, cost, allowed, decision);
  return [
    allowed ? 1 : 0,
    decision.remaining,
    decision.retryAfterUs,
    decision.resetAfterUs,
    decision.delayUs,
    state.atUs,
  ];
}
