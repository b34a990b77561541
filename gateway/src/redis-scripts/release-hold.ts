// Frees the slots that a caller holds, once.
//
// KEYS   the hold, then the counters of the policy's limits of concurrency
// ARGV   its mark (32 bytes), slots, for each limit its mark (16 bytes), quota (slots) and time to live (µs)
// reply  1; 0 if nothing is held: it was released before, or it has expired
// The time is Redis' own. The script is atomic, like every script.

import { concurrency } from "../../../limiter/src/algorithms/concurrency.ts";
import { refund } from "../../../limiter/src/algorithms/rate.ts";
import { counterAt, loadCounter, redisRing, redisTimeUs, saveCounter } from "./counter.ts";
import { forgetHold, heldAtUs, loadHold } from "./stored-hold.ts";

export function releaseHold(keys: string[], argv: string[]): number {
  const key = keys[0] as string;
  const stored = loadHold(key, argv[0] as string);
  if (stored === undefined) return 0;
  forgetHold(key);
  const nowUs = redisTimeUs();
  const slots = tonumber(argv[1]) as number;
  for (let i = 1; i < keys.length; i++) {
    const heldUs = heldAtUs(stored, argv[i * 3 - 1] as string);
    if (heldUs !== undefined) {
      const limit = concurrency(tonumber(argv[i * 3]) as number, tonumber(argv[i * 3 + 1]) as number);
      const state = counterAt(keys[i] as string);
      loadCounter(limit, state, nowUs);
      if (state.atUs > 0) {
        refund(limit, state, redisRing, nowUs, heldUs, slots);
        saveCounter(limit, state, nowUs);
      }
    }
  }
  return 1;
}
