// Refunds charges: those of requests that another policy or store refused, and slots of requests that have ended.
//
// KEYS   the counters
// ARGV   six for each counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), cost (units), charged at
//        (µs): as in the charge's reply
// reply  how many of the counters existed
// The time is Redis' own. The script is atomic, like every script.

import { refund } from "../../../limiter/src/algorithms/rate.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs, saveCounter } from "./counter.ts";

export function refundCounters(keys: string[], argv: string[]): number {
  const nowUs = redisTimeUs();
  const count = keys.length;
  let found = 0;
  for (let i = 0; i < count; i++) {
    const rate = rateFrom(argv[i * 6] as string, argv, i * 6 + 1);
    const cost = tonumber(argv[i * 6 + 4]) as number;
    const chargedAtUs = tonumber(argv[i * 6 + 5]) as number;
    const state = counterAt(keys[i] as string);
    loadCounter(rate, state, nowUs);
    // The window of a lifetime begins at 0.
    if (state.atUs > 0 || state.count > 0) {
      refund(rate, state, redisRing, nowUs, chargedAtUs, cost);
      saveCounter(rate, state, nowUs);
      found += 1;
    }
  }
  return found;
}
