// Long work beside requests, in slices: when one has lasted for long enough, nginx turns to everything else that waits.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { runSoon } from "./background.ts";
import { collect, endRoundBefore, isFull, postponeCollection } from "./collector.ts";
import { stateDict } from "./shared-memory.ts";
import { stopwatchSeconds } from "./stopwatch.ts";
import { keepTableOpen } from "./string-table.ts";

const sliceSeconds = 0.001;
/** The shortest that nginx without OpenResty's patches keeps: a sleep of 0 ends before anything else is looked at. */
const restSeconds = 0.001;
const longestKey = "longest-slice:";
let collecting = false;
let takingIn = false;

/**
 * A snapshot's worth of work. What it leaves behind is collected when it has ended, in slices too; the next
 * one goes first, unless too much is left.
 *
 * @param bytes how long the snapshot's text is
 * @param work is to call `pause` between its steps, which yields when a slice is over; it yields nowhere else
 * @throws what `work` throws, whose leavings are collected as well
 */
export function inSlices<Result>(bytes: number, work: (this: void, pause: Pause) => Result): Result {
  while (collecting && isFull()) rest();
  takingIn = true;
  postponeCollection();
  const [ended, result] = pcall(
    sliced<Result>,
    (pause: Pause) => {
      endRoundBefore(bytes, pause);
      return work(pause);
    },
    noteSlice,
  );
  takingIn = false;
  collectSoon();
  if (!ended) error(result, 0);
  return result as Result;
}

/** Other long work, which leaves little behind. @param work as above */
export function besideRequests(work: (this: void, pause: Pause) => void): void {
  sliced(work, () => {});
}

function collectSoon(): void {
  if (collecting) return;
  const failedToBegin = runSoon(() => {
    if (ngx.worker.exiting()) return;
    // Whatever happens: a snapshot may wait for this.
    const [ok, failure] = pcall(
      sliced<void>,
      (pause: Pause) => {
        keepTableOpen(pause);
        collect(pause, () => !takingIn);
      },
      noteSlice,
    );
    collecting = false;
    if (!ok) ngx.log(ngx.ERR, "sluice: garbage was not collected: ", `${failure}`);
  });
  collecting = failedToBegin === undefined;
}

/** @param ended is told how long each slice has lasted */
function sliced<Result>(
  work: (this: void, pause: Pause) => Result,
  ended: (this: void, seconds: number) => void,
): Result {
  let beganAt = stopwatchSeconds();
  const result = work(() => {
    const seconds = stopwatchSeconds() - beganAt;
    if (seconds < sliceSeconds) return;
    ended(seconds);
    rest();
    beganAt = stopwatchSeconds();
  });
  ended(stopwatchSeconds() - beganAt);
  return result;
}

/** Lets everything else that waits go first, once. Yields. */
export function rest(): void {
  ngx.sleep(restSeconds);
}

function noteSlice(seconds: number): void {
  // A key of its own for each worker: nobody else writes it between our two calls.
  const key = `${longestKey}${ngx.worker.id()}`;
  if (seconds > (stateDict.get<number>(key)[0] ?? 0)) stateDict.set(key, seconds);
}

/** Of all workers, since nginx started. */
export function longestSliceSeconds(): number {
  let longest = 0;
  for (let id = 0; id < ngx.worker.count(); id++) {
    longest = math.max(longest, stateDict.get<number>(`${longestKey}${id}`)[0] ?? 0);
  }
  return longest;
}
