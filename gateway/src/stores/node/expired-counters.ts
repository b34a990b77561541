// Frees the memory of expired counters while memory is scarce. nginx frees expired entries of a dict only from the least recently
// used end, two at each write, and stops at the first entry that still lives: one idle counter with a window of a day holds up
// everything behind it. So one worker moves living entries to the other end, a few at a time.

import { runEvery } from "../../runtime/background.ts";
import { countersDict, overflowDict } from "../../runtime/shared-memory.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";

const everySeconds = 0.02;
/** The length of each round: the longest that requests of this worker wait, and a fortieth of its time. */
const roundUs = 500;
const keysAtOnce = 32;
const freesAtOnce = 32;
/** A dict's memory is scarce below this part of its capacity: where new counters begin to be limited, or a little before. */
const scarceBelow = 0.3;
/** nginx skips expired entries on its way to the living ones, twice, at this pace or faster. */
const passedPerUs = 50;
/** Longer than it takes to list keys if no expired entries are in the way. */
const unobstructedUs = 100;
/** How many entries each incr of a missing key frees. */
const freedAtOnce = 2;
/** No counter has this name. */
const missingKey = "?";

interface Swept {
  readonly dict: SharedDict;
  readonly scarceBytes: number;
  /** The estimated number of expired entries at the end: they are freed before keys are listed again. */
  expired: number;
}

/** Called when a worker starts. */
export function keepFreeingExpired(): void {
  if (ngx.worker.id() !== 0) return;
  const swept = [countersDict, overflowDict].map(
    (dict): Swept => ({ dict, scarceBytes: dict.capacity() * scarceBelow, expired: 0 }),
  );
  runEvery(everySeconds, (premature) => {
    if (premature) return;
    for (const each of swept) if (each.dict.free_space() < each.scarceBytes) sweep(each);
  });
}

function sweep(swept: Swept): void {
  const untilUs = stopwatchUs() + roundUs;
  do {
    if (swept.expired > 0) freeExpired(swept);
    else turn(swept);
  } while (stopwatchUs() < untilUs);
}

function freeExpired(swept: Swept): void {
  for (let i = 0; i < freesAtOnce; i++) swept.dict.incr(missingKey, 0);
  swept.expired -= freesAtOnce * freedAtOnce;
}

/** Moves living entries away from the end; the next writes free whatever has expired behind them. */
function turn(swept: Swept): void {
  const { dict } = swept;
  const beginUs = stopwatchUs();
  const keys = dict.get_keys(keysAtOnce);
  const tookUs = stopwatchUs() - beginUs;
  // The skipped entries have to be freed first, or each round would skip them again.
  if (tookUs > unobstructedUs) swept.expired = tookUs * passedPerUs;
  // incr fails on a text and leaves it unchanged, but counts as a use of the entry.
  for (const key of keys) dict.incr(key, 0);
}
