// Frees the slots that a caller holds, once.
//
// KEYS   the hold, then the counters of the policy's limits of concurrency
// ARGV   its mark (32 bytes), slots, "always" or "over": only if its time is over, nothing, for each limit its mark (16 bytes), quota (slots)
//        and time to live (µs)
// reply  1; 0 if nothing is held: it was released before, or its time is over. With "over": 1 if the slots were freed, else 0
// The time is Redis' own. The script is atomic, like every script.

import { redisTimeUs } from "./counter.ts";
import { freeSlots, isOver, loadHold } from "./stored-hold.ts";

export function releaseHold(keys: string[], argv: string[]): number {
  const stored = loadHold(keys[0] as string, argv[0] as string);
  if (stored === undefined) return 0;
  const nowUs = redisTimeUs();
  const over = isOver(stored, nowUs);
  const ends = argv[2] === "over";
  if (ends && !over) return 0;
  freeSlots(keys, argv, stored, nowUs);
  return over === ends ? 1 : 0;
}
