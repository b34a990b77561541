// The start time of the overflow, and the secret that assigns keys to its cells, so that nobody outside can find out which keys
// share one. Both are stored in the overflow's dict, so that all workers, including those after a reload, use the same.

import { randomBytes } from "../../runtime/files.ts";
import { overflowDict } from "../../runtime/shared-memory.ts";

const seedKey = "seed";
const secretBytes = 32;
/** By then every worker has noticed the start: before that, no worker puts a counter into the overflow. */
const noticedAfterSeconds = 0.05;

let seed: string | undefined;
let begunAtSeconds = 0;

/** Called when memory has become scarce. */
export function beginOverflow(): void {
  if (overflowHasBegun()) return;
  // LuaJIT's own random numbers are the same in each process, and pid and time can be guessed: whoever knows the secret can
  // choose a victim's cell.
  const random = randomBytes(secretBytes) ?? "";
  const secret = ngx.md5(`${random} ${ngx.worker.pid()} ${ngx.now()} ${math.random()} ${tostring({})}`);
  overflowDict.safe_add(seedKey, string.format("%.3f %s", ngx.now(), secret));
}

/** Returns whether the overflow may contain counters. Once true, this stays so as long as nginx runs. */
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
  // If the clock has stepped back, it does not show how long ago the start was.
  return now - begunAtSeconds >= noticedAfterSeconds || now < begunAtSeconds ? seed : undefined;
}
