// Gives back the memory of counters that have expired, while it is scarce. nginx frees expired entries of a dict only from the end
// that was not used for longest, two at each write, and stops at the first that still lives: one idle counter of a day holds up
// all behind it. So those that live are moved to the other end, a few at a time, in one worker.

import { countersDict, overflowDict } from "../../runtime/shared-memory.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";

const everySeconds = 0.02;
/** Of each round: requests of this worker wait no longer, and it takes a fortieth of its time. */
const roundUs = 500;
const keysAtOnce = 32;
const freesAtOnce = 32;
/** Below this part of its capacity, a dict's memory is scarce: where newcomers begin to be limited, or a little before. */
const scarceBelow = 0.3;
/** nginx passes over expired entries on its way to the living, twice and at this pace or faster. */
const passedPerUs = 50;
/** Longer than handing out keys takes, where no expired entries are in the way. */
const unobstructedUs = 100;
/** Freed by each incr of a key that is not there. */
const freedAtOnce = 2;
/** No counter has this name. */
const nobody = "?";

interface Swept {
  readonly dict: SharedDict;
  readonly scarceBytes: number;
  /** Expired entries that lie at the end, as far as is known: they are freed before keys are asked for again. */
  expired: number;
}

/** For each worker's start. */
export function keepFreeingExpired(): void {
  if (ngx.worker.id() !== 0) return;
  const swept = [countersDict, overflowDict].map(
    (dict): Swept => ({ dict, scarceBytes: dict.capacity() * scarceBelow, expired: 0 }),
  );
  ngx.timer.every(everySeconds, (premature) => {
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
  for (let i = 0; i < freesAtOnce; i++) swept.dict.incr(nobody, 0);
  swept.expired -= freesAtOnce * freedAtOnce;
}

/** Moves those that live from the end; whatever has expired behind one is freed by the next. */
function turn(swept: Swept): void {
  const { dict } = swept;
  const beginUs = stopwatchUs();
  const keys = dict.get_keys(keysAtOnce);
  const tookUs = stopwatchUs() - beginUs;
  // Those that were passed over must be freed first, or each round would pass over them again.
  if (tookUs > unobstructedUs) swept.expired = tookUs * passedPerUs;
  // Of a text there is no sum, and nothing happens to it; but it was used.
  for (const key of keys) dict.incr(key, 0);
}
