// When the overflow has begun, and the secret by which keys are dealt out to its cells: nobody outside can tell which keys share
// one. Both lie in its dict, so that all workers, and those after a reload, know the same.

import { randomBytes } from "../../runtime/files.ts";
import { overflowDict } from "../../runtime/shared-memory.ts";

const seedKey = "seed";
const secretBytes = 32;
/** Every worker has noticed by then: until all know of it, nobody puts a counter there. */
const noticedAfterSeconds = 0.05;

let seed: string | undefined;
let begunAtSeconds = 0;

/** Memory has become scarce. */
export function beginOverflow(): void {
  if (overflowHasBegun()) return;
  // LuaJIT's own numbers are the same in each process, and pid and time can be tried: whoever has the secret picks a victim's cell.
  const random = randomBytes(secretBytes) ?? "";
  const secret = ngx.md5(`${random} ${ngx.worker.pid()} ${ngx.now()} ${math.random()} ${tostring({})}`);
  overflowDict.safe_add(seedKey, string.format("%.3f %s", ngx.now(), secret));
}

/** Whether counters may be there, for as long as nginx runs. */
export function overflowHasBegun(): boolean {
  if (seed !== undefined) return true;
  const [stored] = overflowDict.get<string>(seedKey);
  if (stored === undefined) return false;
  seed = stored;
  begunAtSeconds = tonumber(string.match(stored, "^%S+")[0]) as number;
  return true;
}

/** @returns undefined: no counter may be put there yet */
export function overflowSeed(): string | undefined {
  if (!overflowHasBegun()) return undefined;
  const now = ngx.now();
  // A clock that has stepped back says nothing about how long ago it was.
  return now - begunAtSeconds >= noticedAfterSeconds || now < begunAtSeconds ? seed : undefined;
}
