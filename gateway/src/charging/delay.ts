// Requests that wait for units (onLimit: delay). Those of one counter stand in line on each worker: the first sleeps until
// the limit has units again and asks, the others sleep until it is their turn, and whoever comes while others wait asks
// for nothing before them. So nobody is overtaken, and a long line asks no more often than a short one. Only the requests
// wait: the worker serves others meanwhile.
//
// A place is given up when the request ends at the latest: nginx ends that of a client that is gone.

import { never } from "../../../limiter/src/algorithms/decision.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import {
  clearMerged,
  type MergedDecision,
  mergeAll,
  newMergedDecision,
} from "../../../limiter/src/compiled/merged-decision.ts";
import type { Delay } from "../../../limiter/src/document/on-limit.ts";
import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { nowMs, sleepMs } from "../runtime/clock.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import { beginWaiting, endWaiting, mayWait } from "./waiting-requests.ts";

/** Of a limit that cannot say when it is worth asking again: a slot of concurrency comes back at any moment. */
const askAgainMs = 10;

interface Place {
  readonly line: Line;
  readonly turn: Semaphore;
  before: Place | undefined;
  behind: Place | undefined;
}

/** Those who wait for one counter of one policy. */
interface Line {
  readonly policy: string;
  readonly counter: string;
  /** What the first was told when it last asked. */
  readonly refusal: MergedDecision;
  /** When the first asks again. */
  nextAtMs: number;
  length: number;
  first: Place | undefined;
  last: Place | undefined;
}

/** On this worker: how many wait by policy, and the lines by policy and key values. */
const waitingFor: Record<string, number | undefined> = {};
const lines: Record<string, Line | undefined> = {};
/** Its end gives the place of a request to the next. */
const placeField = newRequestField<Place>(leave);

/**
 * Charges the request, now or when its turn has come. Yields.
 *
 * @param own empty; has the decision of the policy afterwards, and nothing if the policy could not decide
 * @param decide charges the request if it may go on now, and fills `own` anew
 * @returns whether it may go on; false when the wait would be too long, or too many wait already, of this policy or of all
 */
export function admitInTurn(
  policy: CompiledPolicy,
  keyValues: string,
  { maxDelayUs, maxWaiting }: Delay,
  own: MergedDecision,
  decide: () => boolean,
): boolean {
  const name = policy.counterPrefix;
  const counter = name + keyValues;
  const refusal = lines[counter]?.refusal;
  // Not of a former snapshot's policy: what that said is not told under this one's name.
  if (refusal?.policy?.limits === policy.limits) {
    mergeAll(own, refusal);
  } else {
    if (decide()) return true;
    if (own.policy === undefined) return false;
  }
  if ((waitingFor[name] ?? 0) >= maxWaiting || !mayWait(policy)) return false;
  const line = lines[counter] ?? beginLine(name, counter, own);
  const untilMs = nowMs() + maxDelayUs / 1000;
  const turnAtMs = math.max(line.nextAtMs, nowMs()) + line.length * slowestMs(policy);
  if (own.decision.retryAfterUs === never || turnAtMs > untilMs) {
    if (line.length === 0) lines[counter] = undefined;
    return false;
  }
  beginWaiting();
  const place = enter(line);
  keepForRequest(placeField, place);
  const allowed = waitIn(place, own, untilMs, decide);
  endWaiting();
  takeFromRequest(placeField);
  leave(place);
  return allowed;
}

function waitIn(place: Place, own: MergedDecision, untilMs: number, decide: () => boolean): boolean {
  const { line, turn } = place;
  if (line.first === place) {
    sleepMs(line.nextAtMs - nowMs());
  } else {
    turn.wait((untilMs - nowMs()) / 1000);
    if (line.first !== place) return false;
  }
  while (!decide()) {
    if (own.policy === undefined) return false;
    note(line, own);
    if (own.decision.retryAfterUs === never || line.nextAtMs > untilMs) return false;
    sleepMs(line.nextAtMs - nowMs());
  }
  return true;
}

function beginLine(policy: string, counter: string, own: MergedDecision): Line {
  const line: Line = {
    policy,
    counter,
    refusal: newMergedDecision(),
    nextAtMs: 0,
    length: 0,
    first: undefined,
    last: undefined,
  };
  note(line, own);
  lines[counter] = line;
  return line;
}

/** A started ms counts whole: nginx's clock has no parts of one. */
function note(line: Line, own: MergedDecision): void {
  const { retryAfterUs } = own.decision;
  clearMerged(line.refusal);
  mergeAll(line.refusal, own);
  line.nextAtMs = nowMs() + (retryAfterUs > 0 ? math.ceil(retryAfterUs / 1000) : askAgainMs);
}

function enter(line: Line): Place {
  const place: Place = { line, turn: semaphoreLibrary.new(0), before: line.last, behind: undefined };
  if (line.last === undefined) line.first = place;
  else line.last.behind = place;
  line.last = place;
  line.length += 1;
  waitingFor[line.policy] = (waitingFor[line.policy] ?? 0) + 1;
  return place;
}

function leave(this: void, place: Place): void {
  const { line, before, behind } = place;
  if (behind === undefined) line.last = before;
  else behind.before = before;
  if (before === undefined) line.first = behind;
  else before.behind = behind;
  // It was its turn, and now it is the next one's.
  if (before === undefined && behind !== undefined) behind.turn.post(1);
  line.length -= 1;
  // Nothing instead of 0, so that what nobody waits for is not kept.
  if (line.length === 0) lines[line.counter] = undefined;
  const others = (waitingFor[line.policy] as number) - 1;
  waitingFor[line.policy] = others > 0 ? others : undefined;
}

/** What one request's units take to come back under the slowest of the policy's limits, in ms; of slots nobody knows. */
function slowestMs({ policy, limits }: CompiledPolicy): number {
  let ms = 0;
  for (const { rate } of limits) {
    if (rate.algorithm === "concurrency") continue;
    ms = math.max(ms, (policy.cost * rate.windowUs) / rate.quota / 1000);
  }
  return ms;
}
