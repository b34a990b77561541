// How long calls wait for Redis. They wait for a server that answers, however late. A server that is silent for a whole deadline
// counts as away. Time is measured by a clock of the worker's own, which stops while the worker is blocked: delays of the gateway
// itself (a blocked event loop, a machine with too little CPU) do not count against Redis.

import { runSoon } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";

/** A server that answers. Times are by the patience clock, in seconds. */
export interface Answerer {
  answeredAtSeconds: number;
}

/** The limits of one call. Times are by the patience clock, in seconds. */
export interface Patience {
  /** The longest allowed silence of the server. */
  readonly silenceSeconds: number;
  /** The longest that the whole call may take, including redirects. */
  readonly limitSeconds: number;
  /** Releases the requests that wait; the reply is still read, for at most `longestLateSeconds`. */
  readonly onSilence: ((this: void) => void) | undefined;
  beganAtSeconds: number;
  /** The server that the call waits for, and since when. */
  server: Answerer | undefined;
  sinceSeconds: number;
  /** No request waits any more: anything not yet sent must not be sent. */
  released: boolean;
}

/** A call may take this many deadlines in total if the server answers other calls meanwhile. */
const deadlinesPerCall = 5;
/** How long a reply is read although no request waits for it. It shows what was charged. */
const longestLateSeconds = 10;
/** A wait is given up after this many of its limits in real time. This counts if the patience clock cannot be kept running. */
export const mostLimits = 5;

const tickSeconds = 0.005;
/** If more time than this passed between two ticks, the worker itself was late by the rest. */
const longestTickSeconds = 0.02;
/** The clock's timer runs on for this long after the last wait, so that the next call finds it running. */
const lingerSeconds = 1;
/** The longest that nginx waits at a time; then the code checks again whether anybody still waits. */
const longestPauseMs = 500;
/** nginx frees what a timer allocated only when the timer ends. */
const mostTicks = 10_000;

let countedSeconds = 0;
let seenAtSeconds = 0;
let ticking = false;
/** By the stopwatch. */
let wantedUntilSeconds = 0;
const watched: Patience[] = [];
/** The number of replies that are being read. */
let reading = 0;

/** The time by the patience clock. It advances only while a call waits. */
export function patienceSeconds(): number {
  return countedSeconds;
}

/** @param limitMs the longest that the call may take; several deadlines by default */
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

/** The longest that a request waits in total, in ms. */
export function longestWaitMs(deadlineMs: number): number {
  return deadlineMs * deadlinesPerCall;
}

/** Called when the call begins to wait for this server. */
export function beginWaiting(patience: Patience, server: Answerer): void {
  patience.server = server;
  askedNow(patience);
}

/** Called when something has just been sent to the server that the call waits for. */
export function askedNow(patience: Patience): void {
  patience.sinceSeconds = countedSeconds;
  keepTicking(patience.silenceSeconds);
}

/** Called when the call no longer waits for any server. */
export function endWaiting(patience: Patience): void {
  patience.server = undefined;
}

/** Returns whether the server has been silent for a whole deadline. */
export function isSilent({ server, sinceSeconds, silenceSeconds }: Patience): boolean {
  return server !== undefined && secondsSilent(server, sinceSeconds) >= silenceSeconds;
}

function secondsSilent({ answeredAtSeconds }: Answerer, sinceSeconds: number): number {
  return countedSeconds - math.max(sinceSeconds, answeredAtSeconds);
}

/** How long to wait for a reply before `isGivenUp` is checked again, in whole ms. */
export function pauseMs(patience: Patience): number {
  const { server, sinceSeconds, silenceSeconds, onSilence } = patience;
  if (onSilence !== undefined || server === undefined) return longestPauseMs;
  const seconds = math.min(silenceSeconds - secondsSilent(server, sinceSeconds), leftSeconds(patience));
  return math.min(math.max(1, math.ceil(seconds * 1000)), longestPauseMs);
}

/** The rest of the call's limit; at 0 or less, nothing new may be sent. */
export function leftSeconds({ beganAtSeconds, limitSeconds, released }: Patience): number {
  return released ? 0 : limitSeconds - (countedSeconds - beganAtSeconds);
}

/** Returns whether to stop waiting for a reply. @param realSeconds since the wait began, by the stopwatch */
export function isGivenUp(patience: Patience, realSeconds: number): boolean {
  if (patience.onSilence !== undefined) {
    return realSeconds >= longestLateSeconds || (patience.released && ngx.worker.exiting());
  }
  if (realSeconds >= patience.limitSeconds * mostLimits) return true;
  return isSilent(patience) || leftSeconds(patience) <= 0;
}

/**
 * Creates the patience of a call whose requests wait elsewhere: silence releases them, once. Call `endWatch` when the call has
 * ended.
 */
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

/** Keeps the clock running while a call waits. @param forSeconds of real time, at least */
export function keepTicking(forSeconds: number): void {
  // While the clock runs, the time of its last tick is accurate enough: reading the clock is expensive for a single call.
  if (!ticking) seenAtSeconds = stopwatchSeconds();
  wantedUntilSeconds = math.max(wantedUntilSeconds, seenAtSeconds + forSeconds);
  if (ticking) return;
  const failure = runSoon(tick);
  if (failure === undefined) ticking = true;
  else warnSparingly("a silent Redis is noticed late, because the timer of its clock could not start", failure);
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
  // nginx waits for this timer when a worker has to end.
  if (ngx.worker.exiting()) return reading > 0 && seenAtSeconds < wantedUntilSeconds;
  return seenAtSeconds < wantedUntilSeconds + lingerSeconds;
}

/**
 * Counts the reading of a reply that is not watched.
 *
 * @param step 1 at the start, -1 at the end; for a request that is gone there is no end
 */
export function countReading(step: number): void {
  reading = math.max(0, reading + step);
}

/** Called when a server is silent: releases all calls that wait for it, no matter when each of them began. */
export function releaseAllOf(server: Answerer): void {
  const waiting = watched.filter((patience) => !patience.released && patience.server === server);
  // All of them first: releasing one reports the silent server, which leads here again.
  for (const patience of waiting) patience.released = true;
  for (const patience of waiting) {
    const [released, defect] = pcall(patience.onSilence as (this: void) => void);
    if (!released) noteDefect("redis", "requests were not released from a silent Redis", defect);
  }
}
