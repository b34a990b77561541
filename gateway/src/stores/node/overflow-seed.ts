// The start time of the overflow, and the secret that assigns keys to its cells, so that nobody outside can find out which keys
// share one. Both are stored in the overflow's dict, so that all workers, including those after a reload, use the same.

import { randomBytes } from "../../runtime/files.ts";
import { overflowDict } from "../../runtime/shared-memory.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";

const seedKey = "seed";
const secretBytes = 32;
/** By then every worker has noticed the start: before that, no worker puts a counter into the overflow. */
const noticedAfterUs = 50_000;

let seed: string | undefined;
/** By the stopwatch. */
let begunAtUs = 0;
let isNoticed = false;

/** Called when memory has become scarce. */
export function beginOverflow(): void {
  if (overflowHasBegun()) return;
  // LuaJIT's own random numbers are the same in each process, and pid and time can be guessed: whoever knows the secret can
  // choose a victim's cell.
  const random = randomBytes(secretBytes) ?? "";
  const secret = ngx.md5(`${random} ${ngx.worker.pid()} ${stopwatchUs()} ${math.random()} ${tostring({})}`);
  overflowDict.safe_add(seedKey, string.format("%.0f %s", stopwatchUs(), secret));
}

/** Returns whether the overflow may contain counters. Once true, this stays so as long as nginx runs. */
export function overflowHasBegun(): boolean {
  if (seed !== undefined) return true;
  const [stored] = overflowDict.get<string>(seedKey);
  if (stored === undefined) return false;
  seed = stored;
  begunAtUs = tonumber(string.match(stored, "^%S+")[0]) as number;
  return true;
}

/** @returns undefined: no counter may be put there yet */
export function overflowSeed(): string | undefined {
  if (!overflowHasBegun()) return undefined;
  isNoticed ||= stopwatchUs() - begunAtUs >= noticedAfterUs;
  return isNoticed ? seed : undefined;
}
