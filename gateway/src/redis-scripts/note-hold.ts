// Notes what a caller holds, after its slots were taken.
//
// KEYS   the hold
// ARGV   its mark (32 bytes), its life (ms), for each limit its mark (16 bytes) and the moment that its slots were taken in (µs)
// reply  1

import { heldText, saveHold } from "./stored-hold.ts";

export function noteHold(keys: string[], argv: string[]): number {
  let text = argv[0] as string;
  for (let i = 2; i < argv.length; i += 2) text += heldText(argv[i] as string, tonumber(argv[i + 1]) as number);
  saveHold(keys[0] as string, text, argv[1] as string);
  return 1;
}
