// Long work beside requests, in slices: after a slice of a fixed length, nginx handles everything else that waits.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { runSoon } from "./background.ts";
import { collect, collectDuringLoad, endRoundBefore, isFull, postponeCollection } from "./collector.ts";
import { noteDefect } from "./defects.ts";
import { ownCpuSeconds, stopwatchSeconds } from "./stopwatch.ts";
import { keepTableOpen } from "./string-table.ts";
import { publishedState, publishState } from "./worker-states.ts";

const sliceSeconds = 0.001;
/** Of a worker that has nothing else to do. The first request that comes waits no longer than for this. */
const longestSliceSecondsIdle = 0.004;
/** Slices grow by this factor with each rest in which nothing else was done. */
const growthOfSlices = 1.5;
/**
 * The timer of a rest takes 15 to 60 µs of CPU. More is taken for somebody's request. One that takes very little may go unnoticed: then those that
 * follow wait for a long slice at most.
 */
const idleCpuSeconds = 0.00006;
/**
 * The shortest sleep that works in an nginx without OpenResty's patches: a sleep of 0 ends before nginx handles anything else.
 */
const restSeconds = 0.001;
let collecting = false;
let takingIn = false;

/**
 * Runs the work of loading one snapshot. The garbage that it leaves is collected afterwards, in slices too. The next snapshot
 * goes first, unless too much garbage is left.
 *
 * @param bytes length of the snapshot's text
 * @param work must call `pause` between its steps, which yields when a slice is over; it must not yield anywhere else
 * @throws what `work` throws; its garbage is collected as well
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
    collectDuringLoad,
  );
  takingIn = false;
  collectSoon();
  if (!ended) error(result, 0);
  return result as Result;
}

/** Runs other long work, which leaves little garbage. @param work as above */
export function besideRequests(work: (this: void, pause: Pause) => void): void {
  sliced(work, () => {});
}

function collectSoon(): void {
  if (collecting) return;
  const failedToBegin = runSoon(() => {
    if (ngx.worker.exiting()) return;
    // Errors must not escape: a snapshot load may wait for the end of this.
    const [ok, failure] = pcall(
      sliced<void>,
      (pause: Pause) => {
        keepTableOpen(pause);
        collect(pause, () => !takingIn);
      },
      noteSlice,
    );
    collecting = false;
    if (!ok) noteDefect("timers", "garbage was not collected", failure);
  });
  collecting = failedToBegin === undefined;
}

/** @param ended receives the length of each slice @param between is called after each rest, and must call its pause likewise */
function sliced<Result>(
  work: (this: void, pause: Pause) => Result,
  ended: (this: void, seconds: number) => void,
  between?: (this: void, pause: Pause) => void,
): Result {
  let slice = sliceSeconds;
  let beganAt = stopwatchSeconds();
  const restIfOver = () => {
    const seconds = stopwatchSeconds() - beganAt;
    if (seconds < slice) return false;
    ended(seconds);
    const cpuBefore = ownCpuSeconds();
    rest();
    const isIdle = ownCpuSeconds() - cpuBefore < idleCpuSeconds;
    slice = isIdle ? math.min(slice * growthOfSlices, longestSliceSecondsIdle) : sliceSeconds;
    beganAt = stopwatchSeconds();
    return true;
  };
  const result = work(() => {
    if (restIfOver()) between?.(restIfOver);
  });
  ended(stopwatchSeconds() - beganAt);
  return result;
}

/** Lets everything else that waits go first, once. Yields. */
export function rest(): void {
  ngx.sleep(restSeconds);
}

function noteSlice(seconds: number): void {
  if (seconds > (publishedState("longest-slice", ngx.worker.id() ?? 0) ?? 0)) publishState("longest-slice", seconds);
}

/** The longest slice of all workers, since nginx started. */
export function longestSliceSeconds(): number {
  let longest = 0;
  for (let id = 0; id < ngx.worker.count(); id++) {
    longest = math.max(longest, publishedState("longest-slice", id) ?? 0);
  }
  return longest;
}
