// How long Redis is waited for. A server that answers, however late, is waited for; one that is silent for a whole deadline is
// away. Time is counted by a clock of the worker's own, which stands still while the worker does: what a gateway is late by
// itself (a blocked loop, a machine with too little CPU) does not count against Redis.

import { runSoon } from "../runtime/background.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";

/** Who answers. Times are of the patience clock, in seconds. */
export interface Answerer {
  answeredAtSeconds: number;
}

/** What one call waits for. Times are of the patience clock, in seconds. */
export interface Patience {
  /** Longest silence of the server. */
  readonly silenceSeconds: number;
  /** Longest that the whole call may take, its detours included. */
  readonly limitSeconds: number;
  /** Whoever asked is released by `onSilence`, and the reply is read all the same, for as long as `longestLateSeconds`. */
  readonly onSilence: ((this: void) => void) | undefined;
  beganAtSeconds: number;
  /** The server that is asked, and since when. */
  server: Answerer | undefined;
  sinceSeconds: number;
  /** Nobody waits any more: nothing that was not sent yet is to be sent. */
  released: boolean;
}

/** A call may take so many deadlines in all, where the server answers others meanwhile. */
const deadlinesPerCall = 5;
/** How long a reply is read that nobody waits for. It tells what was charged. */
const longestLateSeconds = 10;
/** Where the clock could not be kept going, time is real time; a wait is then given up after so many of its limits. */
export const mostLimits = 5;

const tickSeconds = 0.005;
/** Of a longer time between two ticks, the worker itself was late with the rest. */
const longestTickSeconds = 0.02;
/** The clock's timer goes on for so long after the last wait: the next call finds it running. */
const lingerSeconds = 1;
/** Longest that nginx is told to wait at a time: then it is asked again whether anybody still waits. */
const longestPauseMs = 500;
/** nginx frees what a timer took only when it ends. */
const mostTicks = 10_000;

let countedSeconds = 0;
let seenAtSeconds = 0;
let ticking = false;
/** By the stopwatch. */
let wantedUntilSeconds = 0;
const watched: Patience[] = [];
/** Replies that somebody reads now. */
let reading = 0;

/** The patience clock. It moves only while somebody waits. */
export function patienceSeconds(): number {
  return countedSeconds;
}

/** @param limitMs the longest that the call may take; several deadlines unless said */
export function newPatience(deadlineMs: number, limitMs?: number, onSilence?: (this: void) => void): Patience {
  return {
    silenceSeconds: deadlineMs / 1000,
    limitSeconds: (limitMs ?? longestWaitMs(deadlineMs)) / 1000,
    onSilence,
    beganAtSeconds: countedSeconds,
    server: undefined,
    sinceSeconds: countedSeconds,
    released: false,
  };
}

/** Longest that a request waits in all, in ms. */
export function longestWaitMs(deadlineMs: number): number {
  return deadlineMs * deadlinesPerCall;
}

/** For the one that a call now waits for. */
export function beginWaiting(patience: Patience, server: Answerer): void {
  patience.server = server;
  askedNow(patience);
}

/** Something has just been sent to the server that is waited for. */
export function askedNow(patience: Patience): void {
  patience.sinceSeconds = countedSeconds;
  keepTicking(patience.silenceSeconds);
}

/** Nobody is asked any more. */
export function endWaiting(patience: Patience): void {
  patience.server = undefined;
}

/** The server has been silent for a whole deadline. */
export function isSilent({ server, sinceSeconds, silenceSeconds }: Patience): boolean {
  return server !== undefined && secondsSilent(server, sinceSeconds) >= silenceSeconds;
}

function secondsSilent({ answeredAtSeconds }: Answerer, sinceSeconds: number): number {
  return countedSeconds - math.max(sinceSeconds, answeredAtSeconds);
}

/** How long to wait for a reply before `isGivenUp` is asked again, in whole ms. */
export function pauseMs(patience: Patience): number {
  const { server, sinceSeconds, silenceSeconds, onSilence } = patience;
  if (onSilence !== undefined || server === undefined) return longestPauseMs;
  const seconds = math.min(silenceSeconds - secondsSilent(server, sinceSeconds), leftSeconds(patience));
  return math.min(math.max(1, math.ceil(seconds * 1000)), longestPauseMs);
}

/** What is left of the call's limit; 0 or less: nothing new is to be sent. */
export function leftSeconds({ beganAtSeconds, limitSeconds, released }: Patience): number {
  return released ? 0 : limitSeconds - (countedSeconds - beganAtSeconds);
}

/** Whether a reply is waited for no longer. @param realSeconds since it was first waited for, by the stopwatch */
export function isGivenUp(patience: Patience, realSeconds: number): boolean {
  if (patience.onSilence !== undefined) {
    return realSeconds >= longestLateSeconds || (patience.released && ngx.worker.exiting());
  }
  if (realSeconds >= patience.limitSeconds * mostLimits) return true;
  return isSilent(patience) || leftSeconds(patience) <= 0;
}

/** The same for a call whose askers wait elsewhere: silence releases them, once. `endWatch` when the call has ended. */
export function watchedPatience(deadlineMs: number, onSilence: (this: void) => void): Patience {
  const patience = newPatience(deadlineMs, undefined, onSilence);
  watched.push(patience);
  return patience;
}

export function endWatch(patience: Patience): void {
  for (let i = 0; i < watched.length; i++) {
    if (watched[i] !== patience) continue;
    watched[i] = watched[watched.length - 1] as Patience;
    watched.pop();
    return;
  }
}

/** Keeps the clock going while somebody waits. @param forSeconds of real time, at least */
export function keepTicking(forSeconds: number): void {
  // While it goes, the time of its last turn is near enough: reading the clock is dear to a lone call.
  if (!ticking) seenAtSeconds = stopwatchSeconds();
  wantedUntilSeconds = math.max(wantedUntilSeconds, seenAtSeconds + forSeconds);
  if (ticking) return;
  const failure = runSoon(tick);
  if (failure === undefined) ticking = true;
  else warnSparingly("a silent Redis is noticed late", failure);
}

function tick(): void {
  for (let ticks = 0; ticks < mostTicks && isWanted(); ticks++) {
    ngx.sleep(tickSeconds);
    const now = stopwatchSeconds();
    countedSeconds += math.min(now - seenAtSeconds, longestTickSeconds);
    seenAtSeconds = now;
    for (const patience of watched) {
      if (patience.released || !isSilent(patience)) continue;
      releaseAllOf(patience.server as Answerer);
      break;
    }
  }
  ticking = false;
  if (isWanted()) keepTicking(0);
}

function isWanted(): boolean {
  if (watched.length > 0) return true;
  // nginx waits for this timer when a worker is to end.
  if (ngx.worker.exiting()) return reading > 0 && seenAtSeconds < wantedUntilSeconds;
  return seenAtSeconds < wantedUntilSeconds + lingerSeconds;
}

/** Of a reply that is not watched. @param step 1 where it begins, -1 where it ends; one whose request is gone never ends */
export function countReading(step: number): void {
  reading = math.max(0, reading + step);
}

/** A server is silent: nobody waits for it any more, however long ago each of them asked it. */
export function releaseAllOf(server: Answerer): void {
  const waiting = watched.filter((patience) => !patience.released && patience.server === server);
  for (const patience of waiting) {
    patience.released = true;
    const [released, defect] = pcall(patience.onSilence as (this: void) => void);
    if (!released) warnSparingly("requests wait for a silent Redis", `${defect}`);
  }
}
