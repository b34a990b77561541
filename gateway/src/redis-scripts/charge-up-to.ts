// Charges units that requests took while Redis was not asked: at most what a counter has, and of a bucket what refills soon.
//
// KEYS   the counters
// ARGV   five a counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), units
// reply  how many units were charged, of all counters together
// Time is Redis' own. Atomic as every script is.

import { chargeUpTo } from "../../../limiter/src/algorithms/deferred-charge.ts";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs, saveCounter } from "./counter.ts";

export function chargeCountersUpTo(keys: string[], argv: string[]): number {
  const nowUs = redisTimeUs();
  const count = keys.length;
  let charged = 0;
  for (let i = 0; i < count; i++) {
    const rate = rateFrom(argv[i * 5] as Algorithm, argv, i * 5 + 1);
    const units = tonumber(argv[i * 5 + 4]) as number;
    const state = counterAt(keys[i] as string);
    loadCounter(rate, state);
    const taken = chargeUpTo(rate, state, redisRing, nowUs, units);
    if (taken > 0) saveCounter(rate, state, nowUs);
    charged += taken;
  }
  return charged;
}
