// Notes what a caller holds, after its slots were taken.
//
// KEYS   the hold
// ARGV   its mark (32 bytes), the life of the note (ms), for how long it is held (µs; 0: for as long as its slots live), for each limit its mark
//        (16 bytes) and the moment that its slots were taken in (µs)
// reply  1
// The time is Redis' own.

import { redisTimeUs } from "./counter.ts";
import { heldText, saveHold, untilText } from "./stored-hold.ts";

export function noteHold(keys: string[], argv: string[]): number {
  let text = (argv[0] as string) + untilText(redisTimeUs(), tonumber(argv[2]) as number);
  for (let i = 3; i < argv.length; i += 2) text += heldText(argv[i] as string, tonumber(argv[i + 1]) as number);
  saveHold(keys[0] as string, text, argv[1] as string);
  return 1;
}
