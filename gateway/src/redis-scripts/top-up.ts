// Adds units back to counters, no matter which requests took them: an operator's order for one key. Slots are not changed, nor counters that owe units.
//
// KEYS   the counters
// ARGV   five for each counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), units
// reply  how many of the counters existed
// The time is Redis' own. The script is atomic, like every script.

import { topUp } from "../../../limiter/src/algorithms/top-up.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs, saveCounter, unpaidUs } from "./counter.ts";

export function topUpCounters(keys: string[], argv: string[]): number {
  const nowUs = redisTimeUs();
  const count = keys.length;
  let found = 0;
  for (let i = 0; i < count; i++) {
    const rate = rateFrom(argv[i * 5] as string, argv, i * 5 + 1);
    const units = tonumber(argv[i * 5 + 4]) as number;
    const state = counterAt(keys[i] as string);
    loadCounter(rate, state, nowUs);
    // The window of a lifetime begins at 0.
    const owesUs = unpaidUs(rate, state, nowUs, true);
    if (owesUs === 0 && (state.atUs > 0 || state.count > 0)) {
      topUp(rate, state, redisRing, nowUs, units);
      saveCounter(rate, state, nowUs);
      found += 1;
    }
  }
  return found;
}
