// The lines of several workers for the same counter as one line, in the order of arrival. Each worker has a line of its own (delay.ts), whose
// first request says here since when it waits. It is decided only when no other worker's first request has waited for longer. When a first
// request leaves its line, its worker tells the worker whose request has now waited longest. Workers read this every millisecond. So nobody waits for
// others' lines, however many there are.
//
// Others forget what a worker says a second after it last said so: nobody waits for a worker that is gone. While a reload replaces
// workers, two have the same number, and the order is kept among the new ones only.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import { getAged, setAged } from "../runtime/aged-entries.ts";
import { runSoon } from "../runtime/background.ts";
import { sleepMs } from "../runtime/clock.ts";
import { addSafely, countersDict } from "../runtime/shared-memory.ts";
import { stopwatchUs } from "../runtime/stopwatch.ts";

const lifeSeconds = 1;
/** How often a worker says again that its request waits. */
export const sayAgainMs = 300;
/** How often a worker reads what it is told, while any of its lines waits for that. */
const readEveryMs = 1;
/** How many turns a worker may be told of before it reads them. */
const mostUnread = 256;
/** A line looks for itself so often, or more rarely if there are many, in case that what its worker was told is lost. */
const lookAgainMs = 20;
/** The most that a worker's lines look for themselves in a millisecond. */
const looksPerMs = 10;

let workers = 1;
let self = 0;
/** By counter: the lines whose first request waits for those of other workers. */
const lookers: Record<string, Semaphore | undefined> = emptyTable();
let lookerCount = 0;
let isReading = false;
/** The number of the last turn that was read. */
let lastRead = 0;

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

/** This worker's first request has left. @param nextUs since when the one behind it waits, if there is one */
export function passTurnOn(counter: string, nextUs = math.huge): undefined {
  if (workers === 1) return;
  forgetLooker(counter);
  let longestUs = nextUs;
  let whose: number | undefined;
  for (let id = 0; id < workers; id++) {
    const first = id === self ? undefined : firstOf(id, counter);
    if (first === undefined || first >= longestUs) continue;
    longestUs = first;
    whose = id;
  }
  if (whose !== undefined) tell(whose, counter);
}

/** Waits until it may be this worker's turn, `ms` at most. Yields. @param turn of the first request, which may be posted too early */
export function awaitTurn(counter: string, arrivedUs: number, turn: Semaphore, ms: number): undefined {
  if (lookers[counter] === undefined) lookerCount += 1;
  lookers[counter] = turn;
  read();
  const pauseMs = math.max(lookAgainMs, math.floor((lookerCount / looksPerMs) * (0.75 + math.random() / 2)));
  // Another worker may have told the turn before this one began to read: nobody tells it again.
  if (isOthersTurn(counter, arrivedUs)) turn.wait(math.max(math.min(ms, pauseMs), 1) / 1000);
  forgetLooker(counter);
}

function forgetLooker(counter: string): undefined {
  if (lookers[counter] === undefined) return;
  lookers[counter] = undefined;
  lookerCount -= 1;
}

/** Without a timer, lines look for themselves. */
function read(): undefined {
  if (isReading) return;
  lastRead = turnsTold();
  isReading =
    runSoon(() => {
      while (lookerCount > 0) {
        sleepMs(readEveryMs);
        readTurns();
      }
      isReading = false;
    }) === undefined;
}

function readTurns(): void {
  const last = turnsTold();
  for (let number = math.max(lastRead, last - mostUnread) + 1; number <= last; number++) {
    const counter = getAged<string>(countersDict, turnKey(self, number), lifeSeconds);
    if (counter !== undefined) lookers[counter]?.post(1);
  }
  lastRead = last;
}

function turnsTold(): number {
  return countersDict.get<number>(turnsKey(self))[0] ?? 0;
}

function tell(id: number, counter: string): undefined {
  const number = addSafely(countersDict, turnsKey(id), 1, 0);
  if (number !== undefined) setAged(countersDict, turnKey(id, number), counter, lifeSeconds);
}

/** Returns whether a request of another worker has waited for longer. */
export function isOthersTurn(counter: string, arrivedUs: number): boolean {
  for (let id = 0; id < workers; id++) {
    if (id === self) continue;
    const first = firstOf(id, counter);
    if (first !== undefined && first < arrivedUs) return true;
  }
  return false;
}

function firstOf(id: number, counter: string): number | undefined {
  return getAged<number>(countersDict, firstKey(counter, id), lifeSeconds);
}

function firstKey(counter: string, id: number): string {
  return `first:${id}:${counter}`;
}

function turnsKey(id: number): string {
  return `turns:${id}`;
}

function turnKey(id: number, number: number): string {
  return `turn:${id}:${number % mostUnread}`;
}
