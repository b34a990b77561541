// LuaJIT keeps every text that there is in one table. When that is full it is made anew, twice as large, in one go, which takes
// 25 ms of CPU at 130,000 texts: as many as 10,000 policies may have while they are replaced. So it is made as large as it
// will have to be before anybody waits.

/** Above this number the table has room for `room`, and it keeps that as long as a quarter is taken. */
const room = 262_144;
/** A table of Lua is marked in one go: short ones. */
const textsTogether = 256;

const kept: string[][] = [];

/** For init_by_lua: takes 5 MB and 50 ms. */
export function widenStringTable(): void {
  while (kept.length * textsTogether <= room / 4) kept.push(texts(kept.length));
  // Those that make it grow need to be there together, and no longer.
  const others: string[][] = [];
  for (let place = kept.length; place * textsTogether <= room / 2; place++) others.push(texts(place));
}

/** Texts that nobody else has. */
function texts(place: number): string[] {
  const list: string[] = [];
  for (let i = 0; i < textsTogether; i++) list.push(`~${place * textsTogether + i}`);
  return list;
}
