// Renews the slots that a caller holds for another life: all of them, or none is left.
//
// KEYS   the hold, then the counters of the policy's limits of concurrency
// ARGV   its mark (32 bytes), slots, the life of the note (ms), for how long it is held (µs; 0: for as long as its slots live), for each limit its
//        mark (16 bytes), quota (slots) and time to live (µs)
// reply  1; 0 if nothing is held: it was released, its time is over, or its slots were lost and cannot be taken again
// The time is Redis' own. The script is atomic, like every script.

import { concurrency, renewSlots } from "../../../limiter/src/algorithms/concurrency.ts";
import { counterAt, loadCounter, redisRing, redisTimeUs, saveCounter } from "./counter.ts";
import { freeSlots, heldAtUs, heldText, isOver, loadHold, saveHold, untilText } from "./stored-hold.ts";

export function renewHold(keys: string[], argv: string[]): number {
  const key = keys[0] as string;
  const mark = argv[0] as string;
  const stored = loadHold(key, mark);
  if (stored === undefined) return 0;
  const nowUs = redisTimeUs();
  if (isOver(stored, nowUs)) {
    freeSlots(keys, argv, stored, nowUs);
    return 0;
  }
  const slots = tonumber(argv[1]) as number;
  const start = mark + untilText(nowUs, tonumber(argv[3]) as number);
  let text = start;
  let lost = false;
  for (let i = 1; i < keys.length; i++) {
    const heldUs = heldAtUs(stored, argv[i * 3 + 1] as string);
    if (heldUs !== undefined) {
      const limit = concurrency(tonumber(argv[i * 3 + 2]) as number, tonumber(argv[i * 3 + 3]) as number);
      const state = counterAt(keys[i] as string);
      loadCounter(limit, state, nowUs);
      const renewedAtUs = renewSlots(limit, state, redisRing, nowUs, heldUs, slots);
      saveCounter(limit, state, nowUs);
      if (renewedAtUs === undefined) lost = true;
      else text += heldText(argv[i * 3 + 1] as string, renewedAtUs);
    }
  }
  if (text !== start && !lost) {
    saveHold(key, text, argv[2] as string);
    return 1;
  }
  // Slots of other limits, which were renewed, belong to nobody now.
  if (lost) freeSlots(keys, argv, text, nowUs);
  return 0;
}
