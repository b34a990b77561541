// Renews concurrency slots for another lifetime.
//
// KEYS   the counter
// ARGV   quota (slots), time to live (µs), slots, the time (µs) at which they were taken or last renewed
// reply  the new time at which the slots are held; -1 if they were lost meanwhile and could not be taken again
// The time is Redis' own. The script is atomic, like every script.

import { concurrency, renewSlots } from "../../../limiter/src/algorithms/concurrency.ts";
import { counterAt, loadCounter, redisRing, redisTimeUs, saveCounter } from "./counter.ts";

export function renewCounter(keys: string[], argv: string[]): number {
  const nowUs = redisTimeUs();
  const limit = concurrency(tonumber(argv[0]) as number, tonumber(argv[1]) as number);
  const state = counterAt(keys[0] as string);
  loadCounter(limit, state, nowUs);
  const heldAtUs = renewSlots(limit, state, redisRing, nowUs, tonumber(argv[3]) as number, tonumber(argv[2]) as number);
  saveCounter(limit, state, nowUs);
  return heldAtUs ?? -1;
}
