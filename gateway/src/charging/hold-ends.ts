// When holds end that were asked for a shorter time than slots live: a worker of this nginx looks then, and frees slots that nobody has renewed.
// Shared memory keeps which ones, in steps of a tenth of a second, so that a worker that is killed or replaced forgets none. Each
// renewal notes its own end. If the whole nginx is gone, slots in Redis are free when they have lived for as long as the limit's ttl.

import { runEvery, runSoon } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { countersDict } from "../runtime/shared-memory.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchMs } from "../runtime/stopwatch.ts";
import { noteLifeMs } from "../stores/hold-marks.ts";
import { slabOfCell } from "../stores/node/counter-cells.ts";
import { isCalm, takeFromReserve } from "../stores/node/counter-memory.ts";
import type { NamedHold } from "../stores/store.ts";
import { endHold, type PlaceOfHold } from "./named-holds.ts";

/** Finds a hold by its text. @returns undefined: its policy is gone */
type FindHold = (
  this: void,
  text: string,
) => LuaMultiReturn<[hold: NamedHold | undefined, place: PlaceOfHold | undefined]>;

const stepMs = 100;
/** A worker that begins looks at what ended while nginx may have had none. */
const lookBackSteps = 600;
/** An end that nobody has looked at for so long, after its step, is forgotten. */
const keptSeconds = (lookBackSteps * stepMs) / 1000;
/** Redis is asked about so many at once. */
const endsAtOnce = 50;
/** If Redis does not answer, it is asked again after this time. */
const askAgainMs = 1_000;
const staysHeld = "slots of a caller stay taken until the limit's ttl is over";

/** How many ends this worker has noted, by their steps. */
const noted: Record<number, number | undefined> = {};
let lookedAt = 0;
let looking = false;
let findHold: FindHold;

/** For each worker's start. */
export function keepEndingHolds(find: FindHold): void {
  findHold = find;
  lookedAt = stepOf(stopwatchMs()) - lookBackSteps;
  runEvery(stepMs / 1000, look);
}

/** Notes when the hold ends, if that is before its slots do. @param text with which `findHold` finds it */
export function noteEnd(hold: NamedHold, text: string): void {
  const { ttlMs } = hold;
  if (ttlMs !== undefined) noteEndAt(hold, text, stopwatchMs() + ttlMs, stopwatchMs() + noteLifeMs(hold));
}

/** @param slotsUntilMs nobody holds the slots after this moment, by the stopwatch */
function noteEndAt({ policy }: NamedHold, text: string, atMs: number, slotsUntilMs: number): void {
  // The whole step after it is left out, so that Redis' clock agrees.
  const step = stepOf(atMs) + 1;
  const lifeSeconds = (step * stepMs - stopwatchMs()) / 1000 + keptSeconds;
  const value = `${string.format("%.0f", slotsUntilMs)} ${text}`;
  const id = ngx.worker.id() ?? 0;
  let place = noted[step] ?? 0;
  let key = "";
  do {
    place += 1;
    key = keyOf(step, id, place);
    // One that was noted by a worker before this one, which had the same number.
  } while (countersDict.get(key)[0] !== undefined);
  noted[step] = place;
  if (!isCalm() && !takeFromReserve(policy.counterPrefix, slabOfCell(key, value.length), lifeSeconds)) return;
  const [stored, failure] = countersDict.safe_set(key, value, lifeSeconds);
  if (stored !== true) warnSparingly(staysHeld, `${failure}`);
}

function look(this: void): void {
  if (looking || lookedAt >= stepOf(stopwatchMs())) return;
  looking = true;
  const texts: string[] = [];
  for (const last = stepOf(stopwatchMs()); lookedAt < last; lookedAt++) takeAll(lookedAt, texts);
  if (texts.length === 0) {
    looking = false;
    return;
  }
  const failure = runSoon(() => {
    const [ended, defect] = pcall(endAll, texts);
    looking = false;
    if (!ended) noteDefect("timers", staysHeld, defect);
  });
  if (failure === undefined) return;
  looking = false;
  warnSparingly(staysHeld, failure);
}

/** Takes the ends of this step, of all workers. Two workers may take the same one: it ends once. */
function takeAll(step: number, texts: string[]): void {
  noted[step] = undefined;
  for (let id = 0; id < ngx.worker.count(); id++) {
    for (let place = 1; ; place++) {
      const key = keyOf(step, id, place);
      const [text] = countersDict.get<string>(key);
      if (text === undefined) break;
      countersDict.delete(key);
      texts.push(text);
    }
  }
}

function endAll(this: void, texts: readonly string[]): void {
  for (let from = 0; from < texts.length; from += endsAtOnce) {
    const threads = texts.slice(from, from + endsAtOnce).map((text) => ngx.thread.spawn(() => endOne(text)));
    for (const thread of threads) {
      const [done, failure] = ngx.thread.wait(thread);
      if (!done) noteDefect("timers", staysHeld, failure);
    }
  }
}

function endOne(value: string): void {
  const [untilMs, text] = string.match(value, "^(%d+) (.*)$");
  const [hold, place] = findHold(text as string);
  if (hold === undefined || place === undefined || hold.limits.length === 0) return;
  const slotsUntilMs = tonumber(untilMs) as number;
  const isKnown = endHold(place, hold) !== undefined;
  if (!isKnown && stopwatchMs() < slotsUntilMs)
    noteEndAt(hold, text as string, stopwatchMs() + askAgainMs, slotsUntilMs);
}

function stepOf(ms: number): number {
  return math.floor(ms / stepMs);
}

function keyOf(step: number, worker: number, place: number): string {
  return `hold-end:${string.format("%.0f", step)}:${worker}:${place}`;
}
