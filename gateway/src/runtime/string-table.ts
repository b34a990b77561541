// LuaJIT keeps all strings in one table. When it is full, LuaJIT rebuilds it at twice the size, in one go. This takes 30 ms of
// CPU at 131,072 strings, 10 ms at half of that and 5 ms at a quarter. 10,000 policies that are replaced again and again may have
// that many strings. So a worker that starts with many policies enlarges the table to its final size before anybody waits, and
// keeps filler strings so that the table stays large: LuaJIT halves it if no more than a quarter is in use.
//
// A worker with fewer policies keeps no filler strings. Each cycle of the collector visits every string, and whoever makes
// garbage pays for the cycles: 65,792 strings made all other Lua code of the same nginx slower by a fifth.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import { ffi } from "./packed-memory.ts";

const manyPolicies = 5000;
/** The least number of strings that belong to one policy alone. */
const textsOfPolicy = 3;
/** The table has room for this many strings once it holds more than half as many, and keeps the room while a quarter is in use. */
const room = 262_144;
/** The collector marks a Lua table in one go, so the tables are short. */
const textsTogether = 256;

let expected = 0;
const kept: string[][] = [];

/** Sets how many policies are in force; these will be replaced. */
export function expectPolicies(count: number): void {
  expected = count;
}

/**
 * Called in init_by_lua and init_worker_by_lua, when the first policies are in force. With many policies it takes 5 MB and 100
 * ms, once.
 */
export function widenStringTable(): void {
  if (expected < manyPolicies || kept.length > 0) return;
  keepTableOpen(noPause);
  // The other strings, which make the table grow, have to exist at the same time, but no longer than that.
  const others: string[][] = [];
  for (let place = kept.length; place * textsTogether <= room / 2; place++) others.push(texts(place));
}

/** Keeps as many filler strings as are needed besides the strings of the policies in force. */
export function keepTableOpen(pause: Pause): void {
  const wanted = expected < manyPolicies ? 0 : room / 4 + textsTogether - expected * textsOfPolicy;
  while ((kept.length - 1) * textsTogether >= wanted && kept.length > 0) kept.pop();
  while (kept.length * textsTogether < wanted) {
    kept.push(texts(kept.length));
    pause();
  }
}

const textBytes = 6;
const bytes = ffi.new("uint8_t[?]", textBytes);

/** Returns strings that no other code has: no valid UTF-8 has such bytes. To write numbers as digits would take three times as long. */
function texts(place: number): string[] {
  const list: string[] = [];
  bytes.set(0, 0xff);
  bytes.set(1, 0xfe);
  for (let i = 0; i < textsTogether; i++) {
    bytes.set(2, i);
    bytes.set(3, place % 256);
    bytes.set(4, math.floor(place / 256) % 256);
    bytes.set(5, math.floor(place / 65_536));
    list.push(ffi.string(bytes, textBytes));
  }
  return list;
}
