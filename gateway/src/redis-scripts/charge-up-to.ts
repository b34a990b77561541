// Charges units that requests took without Redis: at most the units that a counter has, and for a bucket also those that refill soon.
//
// KEYS   the counters
// ARGV   five for each counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), units
// reply  how many units were charged, summed over all counters
// A counter that owes units has none. The time is Redis' own. The script is atomic, like every script.

import { chargeUpTo } from "../../../limiter/src/algorithms/deferred-charge.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs, saveCounter, unpaidUs } from "./counter.ts";

export function chargeCountersUpTo(keys: string[], argv: string[]): number {
  const nowUs = redisTimeUs();
  const count = keys.length;
  let charged = 0;
  for (let i = 0; i < count; i++) {
    const rate = rateFrom(argv[i * 5] as string, argv, i * 5 + 1);
    const units = tonumber(argv[i * 5 + 4]) as number;
    const state = counterAt(keys[i] as string);
    loadCounter(rate, state, nowUs);
    const owesUs = unpaidUs(rate, state, nowUs, true);
    let taken = 0;
    if (owesUs === 0) taken = chargeUpTo(rate, state, redisRing, nowUs, units);
    if (taken > 0) saveCounter(rate, state, nowUs);
    charged += taken;
  }
  return charged;
}
