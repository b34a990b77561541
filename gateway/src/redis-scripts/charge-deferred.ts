// Charges what requests took after they went on, whether it is there or not, and says whether another may go on.
//
// KEYS   two a counter: the counter and its debt
// ARGV   five a counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), units (0: only asks; −1: for an operator to see)
// reply  four a counter: 1 if nothing is owed and a unit is there else 0, remaining (units), retry after (µs), reset after (µs)
// Time is Redis' own. Atomic as every script is. Where it asks and another may go on, it fails if Redis takes no writes:
// what is then taken could not be charged.

import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { admitsWithDebt, chargeDeferred, standsFromUs } from "../../../limiter/src/algorithms/deferred-charge.ts";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import {
  counterAt,
  demandWritable,
  keepCounter,
  loadCounter,
  loadDebt,
  rateFrom,
  redisRing,
  redisTimeUs,
  saveCounter,
  saveDebt,
} from "./counter.ts";

export function chargeDeferredCounters(keys: string[], argv: string[]): number[] {
  const nowUs = redisTimeUs();
  const count = keys.length / 2;
  const reply: number[] = [];
  const decision = emptyDecision();
  let letsGoOn = true;
  for (let i = 0; i < count; i++) {
    const rate = rateFrom(argv[i * 5] as Algorithm, argv, i * 5 + 1);
    const units = tonumber(argv[i * 5 + 4]) as number;
    const state = counterAt(keys[i * 2] as string);
    const debtKey = keys[i * 2 + 1] as string;
    loadCounter(rate, state);
    let fromUs = standsFromUs(rate, loadDebt(debtKey), nowUs);
    if (units > 0) {
      fromUs = chargeDeferred(rate, state, redisRing, fromUs, units);
      keepCounter(rate, state, fromUs - nowUs + lifetimeUs(rate, state, fromUs));
      if (fromUs > nowUs) saveDebt(debtKey, fromUs, nowUs, rate.quota);
      state.stepped = false;
    }
    const allowed = admitsWithDebt(rate, state, redisRing, nowUs, fromUs, decision);
    if (state.stepped) saveCounter(rate, state, nowUs);
    if (!allowed || units !== 0) letsGoOn = false;
    reply[i * 4] = allowed ? 1 : 0;
    reply[i * 4 + 1] = decision.remaining;
    reply[i * 4 + 2] = decision.retryAfterUs;
    reply[i * 4 + 3] = decision.resetAfterUs;
  }
  if (letsGoOn) demandWritable(keys[1] as string);
  return reply;
}
