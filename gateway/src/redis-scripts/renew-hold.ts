// Renews the slots that a caller holds for another life: all of them, or none is left.
//
// KEYS   the hold, then the counters of the policy's limits of concurrency
// ARGV   its mark (32 bytes), its life (ms), slots, for each limit its mark (16 bytes), quota (slots) and time to live (µs)
// reply  1; 0 if nothing is held: it was released, it has expired, or its slots were lost and cannot be taken again
// The time is Redis' own. The script is atomic, like every script.

import { concurrency, renewSlots } from "../../../limiter/src/algorithms/concurrency.ts";
import { refund } from "../../../limiter/src/algorithms/rate.ts";
import { counterAt, loadCounter, redisRing, redisTimeUs, saveCounter } from "./counter.ts";
import { forgetHold, heldAtUs, heldText, loadHold, saveHold } from "./stored-hold.ts";

export function renewHold(keys: string[], argv: string[]): number {
  const key = keys[0] as string;
  const mark = argv[0] as string;
  const stored = loadHold(key, mark);
  if (stored === undefined) return 0;
  const nowUs = redisTimeUs();
  const slots = tonumber(argv[2]) as number;
  let text = mark;
  let lost = false;
  for (let i = 1; i < keys.length; i++) {
    const heldUs = heldAtUs(stored, argv[i * 3] as string);
    if (heldUs !== undefined) {
      const limit = concurrency(tonumber(argv[i * 3 + 1]) as number, tonumber(argv[i * 3 + 2]) as number);
      const state = counterAt(keys[i] as string);
      loadCounter(limit, state, nowUs);
      const renewedAtUs = renewSlots(limit, state, redisRing, nowUs, heldUs, slots);
      saveCounter(limit, state, nowUs);
      if (renewedAtUs === undefined) lost = true;
      else text += heldText(argv[i * 3] as string, renewedAtUs);
    }
  }
  if (text !== mark && !lost) {
    saveHold(key, text, argv[1] as string);
    return 1;
  }
  if (lost) {
    // Slots of other limits, which were renewed, belong to nobody now.
    for (let i = 1; i < keys.length; i++) {
      const renewedUs = heldAtUs(text, argv[i * 3] as string);
      if (renewedUs !== undefined) {
        const limit = concurrency(tonumber(argv[i * 3 + 1]) as number, tonumber(argv[i * 3 + 2]) as number);
        const state = counterAt(keys[i] as string);
        loadCounter(limit, state, nowUs);
        refund(limit, state, redisRing, nowUs, renewedUs, slots);
        saveCounter(limit, state, nowUs);
      }
    }
    forgetHold(key);
  }
  return 0;
}
