// LuaJIT keeps every text that there is in one table. When that is full it is made anew, twice as large, in one go, which takes
// 30 ms of CPU at 131,072 texts, 10 at half of that and 5 at a quarter: as many as 10,000 policies may have while they are
// replaced again and again. So a worker that begins with many policies makes the table as large as it will have to be before
// anybody waits, and keeps texts that hold it open: LuaJIT halves it where no more than a quarter is taken.
//
// A worker with fewer policies keeps none. Each round of the collector looks at every text, and whoever makes garbage pays for
// the rounds: 65,792 texts made all other Lua of the same nginx dearer by a fifth.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";

const manyPolicies = 5000;
/** What a policy has at least that is its own. */
const textsOfPolicy = 3;
/** Above this number the table has room for `room`, and it keeps that as long as a quarter is taken. */
const room = 262_144;
/** A table of Lua is marked in one go: short ones. */
const textsTogether = 256;

let expected = 0;
const kept: string[][] = [];

/** How many policies are in force, and will be replaced. */
export function expectPolicies(count: number): void {
  expected = count;
}

/** For init_by_lua and init_worker_by_lua, when the first policies are in force. With many it takes 5 MB and 100 ms, once. */
export function widenStringTable(): void {
  if (expected < manyPolicies || kept.length > 0) return;
  keepTableOpen(noPause);
  // Those that make it grow need to be there together, and no longer.
  const others: string[][] = [];
  for (let place = kept.length; place * textsTogether <= room / 2; place++) others.push(texts(place));
}

/** Keeps as many texts as those of the policies in force leave to be kept. */
export function keepTableOpen(pause: Pause): void {
  const wanted = expected < manyPolicies ? 0 : room / 4 + textsTogether - expected * textsOfPolicy;
  while ((kept.length - 1) * textsTogether >= wanted && kept.length > 0) kept.pop();
  while (kept.length * textsTogether < wanted) {
    kept.push(texts(kept.length));
    pause();
  }
}

/** Texts that nobody else has. */
function texts(place: number): string[] {
  const list: string[] = [];
  for (let i = 0; i < textsTogether; i++) list.push(`~${place * textsTogether + i}`);
  return list;
}
