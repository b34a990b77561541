// A caller may hold slots for a shorter time than they live. When that time has come, a worker of this nginx frees those that nobody has renewed.
// Shared memory keeps which ones, in steps of a tenth of a second, so that a worker that is killed or replaced forgets none. Beside them it
// keeps until when each hold is renewed: a hold that is renewed often has one end all the same, which is looked at again when that time has come. If
// the whole nginx is gone, slots in Redis are free when they have lived for as long as the limit's ttl.

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
/** Until when any end is noted, by the stopwatch; it is there for so long. */
const anyKey = "hold-end:any";
const staysHeld = "slots of a caller stay taken until the limit's ttl is over";

/** How many ends this worker has noted, by their steps. */
const noted: Record<number, number | undefined> = {};
let lookedAt = 0;
let looking = false;
let isLooking = false;
let findHold: FindHold;

/** For each worker's start: one that takes the place of another goes on with what that one has noted. */
export function keepEndingHolds(find: FindHold): void {
  findHold = find;
  if (countersDict.get(anyKey)[0] !== undefined) beginLooking();
}

/** Without holds that end early, a worker has no timer for them. */
function beginLooking(): void {
  if (isLooking) return;
  isLooking = true;
  lookedAt = stepOf(stopwatchMs()) - lookBackSteps;
  runEvery(stepMs / 1000, look);
}

/**
 * Notes when the hold ends that was just taken or renewed, if that is before its slots do.
 *
 * @param text with which `findHold` finds it
 */
export function noteEnd(hold: NamedHold, text: string): void {
  const { ttlMs, policy, name } = hold;
  if (ttlMs === undefined) return;
  const untilMs = stopwatchMs() + ttlMs;
  const key = untilKeyOf(name);
  const lifeSeconds = ttlMs / 1000 + 2 * keptSeconds;
  const isNoted = countersDict.get(key)[0] !== undefined;
  if (!isNoted && !isCalm()) {
    if (!takeFromReserve(policy.counterPrefix, slabOfCell(key, untilBytes), lifeSeconds)) return;
  }
  const [stored, failure] = countersDict.safe_set(key, untilMs, lifeSeconds);
  if (stored !== true) warnSparingly(staysHeld, `${failure}`);
  else if (!isNoted) noteEndAt(hold, text, untilMs, untilMs - ttlMs + noteLifeMs(hold));
}

/** Of a number in shared memory. */
const untilBytes = 8;

/** Where it is noted until when a hold is held, by the stopwatch, as far as this nginx has heard. */
function untilKeyOf(name: string): string {
  return `hold-until:${name}`;
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
  if (!isCalm() && !takeFromReserve(policy.counterPrefix, slabOfCell(key, value.length), lifeSeconds)) return;
  beginLooking();
  const nowMs = stopwatchMs();
  const lastMs = math.max(nowMs + lifeSeconds * 1000, countersDict.get<number>(anyKey)[0] ?? 0);
  countersDict.safe_set(anyKey, lastMs, (lastMs - nowMs) / 1000);
  const [stored, failure] = countersDict.safe_set(key, value, lifeSeconds);
  if (stored === true) noted[step] = place;
  else warnSparingly(staysHeld, `${failure}`);
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
  const [slotsUntil, text] = string.match(value, "^(%d+) (.*)$");
  const [hold, place] = findHold(text as string);
  if (hold === undefined || place === undefined || hold.limits.length === 0) return;
  const key = untilKeyOf(hold.name);
  const [untilMs = 0] = countersDict.get<number>(key);
  if (untilMs > stopwatchMs()) {
    // It has been renewed here.
    noteEndAt(hold, text as string, untilMs, untilMs - (hold.ttlMs ?? 0) + noteLifeMs(hold));
    return;
  }
  const slotsUntilMs = tonumber(slotsUntil) as number;
  const isKnown = endHold(place, hold) !== undefined;
  if (isKnown) countersDict.delete(key);
  else if (stopwatchMs() < slotsUntilMs) noteEndAt(hold, text as string, stopwatchMs() + askAgainMs, slotsUntilMs);
}

function stepOf(ms: number): number {
  return math.floor(ms / stepMs);
}

function keyOf(step: number, worker: number, place: number): string {
  return `hold-end:${string.format("%.0f", step)}:${worker}:${place}`;
}
