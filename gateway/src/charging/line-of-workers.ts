// The lines of several workers for the same counter as one line, in the order of arrival. Each worker has a line of its own (delay.ts), whose
// first request says here since when it waits. It is decided only when no other worker's first request has waited for longer.
//
// Others forget what a worker says a second after it last said so: nobody waits for a worker that is gone. While a reload replaces
// workers, two have the same number, and the order is kept among the new ones only.

import { getAged, setAged } from "../runtime/aged-entries.ts";
import { countersDict } from "../runtime/shared-memory.ts";
import { stopwatchUs } from "../runtime/stopwatch.ts";

const lifeSeconds = 1;
/** How often a worker says again that its request waits. */
export const sayAgainMs = 300;
/** The shortest pause of a request that is not the first of all. */
const lookAgainMs = 2;
/** The most that a worker looks in a millisecond, for all of its lines. */
const looksPerMs = 10;

let workers = 1;
let self = 0;

/** For each worker's start. @param count of this nginx's workers */
export function openLine(count: number, id: number): void {
  workers = count;
  self = id;
}

export function hasOtherWorkers(): boolean {
  return workers > 1;
}

/** Returns whether a request of another worker waits for the counter. */
export function othersWait(counter: string): boolean {
  return workers > 1 && isOthersTurn(counter, math.huge);
}

/** Returns the pause of a request that is not the first of all, so that those of many lines do not look at the same moment. @param lines of this worker */
export function pauseBetweenLooksMs(lines: number): number {
  const pause = lines / looksPerMs;
  return pause <= lookAgainMs ? lookAgainMs : math.floor(pause * (0.75 + math.random() / 2));
}

/** The same clock for all workers, in µs. */
export function arrival(): number {
  return stopwatchUs();
}

/** Says since when this worker's first request waits. */
export function sayFirst(counter: string, arrivedUs: number): undefined {
  if (workers === 1) return;
  setAged(countersDict, firstKey(counter, self), arrivedUs, lifeSeconds);
}

/** This worker's line is empty. */
export function sayNone(counter: string): undefined {
  if (workers > 1) countersDict.delete(firstKey(counter, self));
}

/** Returns whether a request of another worker has waited for longer. */
export function isOthersTurn(counter: string, arrivedUs: number): boolean {
  for (let id = 0; id < workers; id++) {
    if (id === self) continue;
    const first = getAged<number>(countersDict, firstKey(counter, id), lifeSeconds);
    if (first !== undefined && first < arrivedUs) return true;
  }
  return false;
}

function firstKey(counter: string, id: number): string {
  return `first:${id}:${counter}`;
}
