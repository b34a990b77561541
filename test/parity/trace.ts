// Makes random traces, and plays them. This module runs in every compared runtime: as it is in Node, bundled in the browser, as
// Lua in the others. So it imports nothing that would have to exist there, its numbers are whole, and its products stay below
// 2^53.
//
// A trace is a list of numbers: the time at which it begins, how many limits are charged together, six numbers per limit
// (algorithm, quota, window, burst or precision, and initial and warm-up, which only a shaped-bucket has), then four per event:
//
//   0 ask      µs since the event before, cost
//   1 peek     µs since the event before, cost
//   2 refund   µs since the event before, how many asks ago it was charged
//   3 renew    µs since the event before, how many asks ago the slots were taken
//   4 edit     which limit, its new quota, its new burst

import type { CounterState, Ring } from "../../limiter/src/algorithms/counter-state.ts";
import type { Rate } from "../../limiter/src/algorithms/rate.ts";

type Algorithm = Rate["algorithm"];

export interface TraceLimit {
  algorithm: Exclude<Algorithm, "shaped-bucket">;
  quota: number;
  windowUs: number;
  burst: number;
  precisionUs: number;
  /** Only those of a shaped-bucket, which a limit calls a token-bucket. */
  initial?: number;
  warmUpUs?: number;
}

/** A runtime's access to its counters. Reported are six numbers per limit, as the Redis script replies them. */
export interface Player {
  /** Removes all counters, and sets the limits. */
  begin: (this: void, limits: readonly TraceLimit[]) => void;
  edit: (this: void, limits: readonly TraceLimit[]) => void;
  ask: (this: void, nowUs: number, cost: number, reportedNumbers: number[]) => boolean;
  /** The sixth number is 0, because nothing was charged. */
  peek: (this: void, nowUs: number, cost: number, reportedNumbers: number[]) => void;
  refund: (this: void, nowUs: number, cost: number, moments: readonly number[]) => void;
  /** @returns the moment at which the slots are held now, or -1 if they are lost */
  renew: (this: void, nowUs: number, slots: number, heldAtUs: number) => number;
  /** Appends what is stored of a limit's counter: its moment, its count, and two numbers per entry (see `entriesOf`). */
  stored: (this: void, limit: number, nowUs: number, into: number[]) => void;
}

export interface Outcome {
  /** A digest of all decisions, and of what was stored now and then. */
  digest: number;
  asked: number;
  allowed: number;
}

export const algorithms: readonly Algorithm[] = [
  "token-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
  "leaky-bucket",
  "concurrency",
  "calendar-window",
  "shaped-bucket",
];
const shaped = 7;
/** The family of groups of any algorithms; each other family has one algorithm. */
export const mixed = 8;

export const numbersReported = 6;
export const numbersOfLimit = 6;
export const numbersOfEvent = 4;
export const ask = 0;
export const peek = 1;
export const refund = 2;
export const renew = 3;
export const edit = 4;

/** The stored counters are read each time this many events have passed, and at the end. */
const storedEvery = 40;
const maxUnits = 2147483648;
const longestWindowMs = 31622400000;
const lifetimeUs = 4503599627370496;
const year = 31536000000000;
const day = 86400000000;
const hour = 3600000000;
const wrap = 4294967296;
const prime = 2147483647;
const generatorBase = 48271;

/** @param family an algorithm's index in the list, or `mixed` @returns the trace of the counter with this number */
export function randomTrace(seed: number, family: number, counter: number, asks: number): number[] {
  state = 1 + (((seed % 1000003) * 7919 + family * 1000003 + counter * 40692) % (prime - 1));
  for (let i = 0; i < 3; i++) below(2);
  const count = family === mixed ? 2 + below(3) : 1;
  let nowUs = 1500000000000000 + below(1000000000) * 500000 + below(1000000);
  const trace: number[] = [nowUs, count];
  let shortest = longestWindowMs * 1000;
  let capacity = maxUnits;
  let slowest = 0;
  let windowMs = randomWindowMs();
  // Only Redis remembers what a smaller bucket has forgiven. So no bucket is made larger after it was made smaller.
  const fillsIn: number[] = [];
  const shrunk: boolean[] = [];
  for (let i = 0; i < count; i++) {
    const algorithm = family === mixed ? below(mixed) : family;
    const quota = randomUnits();
    // The windows of a group are not too far apart, or a step of the longest would be ages for the shortest.
    if (i > 0) windowMs = Math.min(longestWindowMs, windowMs * (1 + below(100)));
    const windowUs = windowMs * 1000;
    const size = algorithm === 2 ? randomPrecisionUs(windowUs) : randomUnits();
    // Some fixed windows never end. Steps go by a window that does.
    const isLifetime = algorithm === 1 && below(8) === 0;
    append(trace, algorithm, quota, isLifetime ? lifetimeUs : windowUs, size);
    trace.push(algorithm === shaped ? randomInitial(size) : 0);
    trace.push(algorithm === shaped ? randomWarmUpUs((windowUs / quota) * 60) : 0);
    const room =
      algorithm === 0 || algorithm === shaped ? size : algorithm === 4 ? Math.min(size + 1, maxUnits) : quota;
    fillsIn.push(room / quota);
    shrunk.push(false);
    capacity = Math.min(capacity, room);
    shortest = Math.min(shortest, windowUs);
    slowest = Math.max(slowest, Math.min(windowUs / quota, 10000000000000));
  }
  const holdsSlots = family === 5;
  // Some counters are hardly ever refunded, so that their rings grow.
  const refunds = below(2) === 0 ? 4 : holdsSlots ? 40 : 15;
  let asked = 0;
  while (asked < asks) {
    const choice = below(100);
    if (choice < refunds) {
      append(trace, refund, randomStepUs(shortest, 0, 0), 1 + below(below(4) === 0 ? 200 : 8), 0);
    } else if (choice < 45 && holdsSlots) {
      append(trace, renew, randomStepUs(shortest, 0, 0), 1 + below(8), 0);
    } else if (choice === 98) {
      append(trace, peek, randomStepUs(shortest, 0, 0), randomCost(capacity), 0);
    } else if (choice === 99 && below(2) === 0) {
      const limit = below(count);
      const quota = randomUnits();
      const size = randomUnits();
      const isSmaller = size / quota < (fillsIn[limit] as number);
      if (isSmaller || !shrunk[limit]) append(trace, edit, limit, quota, size);
      if (isSmaller) shrunk[limit] = true;
      if (isSmaller || !shrunk[limit]) fillsIn[limit] = size / quota;
    } else {
      const cost = randomCost(capacity);
      let afterUs = randomStepUs(shortest, cost, slowest);
      if (nowUs + afterUs < 1000000000000000 || nowUs + afterUs > 4000000000000000) afterUs = 0;
      nowUs += afterUs;
      append(trace, ask, afterUs, cost, 0);
      asked += 1;
    }
  }
  return trace;
}

/**
 * Returns the moments around now between which the windows of a calendar-window lie: when the one before the present one began, when the
 * present one begins and ends, and when the next one ends. No two windows of this calendar are equally long.
 */
export function momentsAround(
  windowUs: number,
  nowUs: number,
): [previousUs: number, startUs: number, endUs: number, nextEndUs: number] {
  let index = Math.floor(nowUs / windowUs);
  if (beginOf(windowUs, index) > nowUs) index -= 1;
  return [
    beginOf(windowUs, index - 1),
    beginOf(windowUs, index),
    beginOf(windowUs, index + 1),
    beginOf(windowUs, index + 2),
  ];
}

function beginOf(windowUs: number, index: number): number {
  const late = (((index + 1009) % 1009) * 7919) % 1000;
  return Math.max(index * windowUs + Math.floor(windowUs / 2000) * late, 0);
}

/**
 * Plays a trace.
 *
 * @param reported is filled with a list of numbers for each event: what was reported (for a renewal, its moment), then for
 *   each limit how many numbers are stored, and these
 */
export function play(player: Player, trace: readonly number[], reported: number[][] | undefined): Outcome {
  const outcome: Outcome = { digest: 1, asked: 0, allowed: 0 };
  const count = trace[1] as number;
  const limits: TraceLimit[] = [];
  for (let i = 0; i < count; i++) limits.push(limitAt(trace, 2 + i * numbersOfLimit));
  player.begin(limits);
  let nowUs = trace[0] as number;
  const reportedNumbers: number[] = [];
  const stored: number[] = [];
  const numbers = count * numbersReported;
  for (let i = 0; i < numbers; i++) reportedNumbers.push(0);
  // For each ask, this has its cost and its moments; a cost of 0 means that there is nothing to refund.
  const chargedAts: number[] = [];
  const moments: number[] = [];
  const chargedAtNumbers = count + 1;
  let untilStored = storedEvery;
  for (let at = 2 + count * numbersOfLimit; at < trace.length; at += numbersOfEvent) {
    const kind = trace[at] as number;
    const first = trace[at + 1] as number;
    const second = trace[at + 2] as number;
    let digest = outcome.digest;
    let reportedNow: number[] | undefined;
    if (reported !== undefined) {
      reportedNow = [];
      reported.push(reportedNow);
    }
    if (kind === edit) {
      if (first < count) {
        const limit = limits[first] as TraceLimit;
        limit.quota = second;
        limit.burst = trace[at + 3] as number;
        keepLegal(limit);
        player.edit(limits);
      }
    } else {
      nowUs = Math.max(0, nowUs + first);
      if (kind === ask) {
        const allowed = player.ask(nowUs, second, reportedNumbers);
        outcome.asked += 1;
        digest = mix(digest, allowed ? 1 : 0);
        chargedAts.push(allowed ? second : 0);
        for (let i = 0; i < count; i++) chargedAts.push(reportedNumbers[i * numbersReported + 5] as number);
        if (allowed) outcome.allowed += 1;
        if (reportedNow !== undefined) reportedNow.push(allowed ? 1 : 0);
      } else if (kind === peek) {
        player.peek(nowUs, second, reportedNumbers);
      } else {
        const chargedAt = chargedAts.length - second * chargedAtNumbers;
        if (chargedAt >= 0 && (chargedAts[chargedAt] as number) > 0) {
          const cost = chargedAts[chargedAt] as number;
          if (kind === refund) {
            for (let i = 0; i < count; i++) moments[i] = chargedAts[chargedAt + 1 + i] as number;
            player.refund(nowUs, cost, moments);
            chargedAts[chargedAt] = 0;
          } else {
            const heldAtUs = player.renew(nowUs, cost, chargedAts[chargedAt + 1] as number);
            digest = mix(digest, heldAtUs);
            if (reportedNow !== undefined) reportedNow.push(heldAtUs);
            // Lost slots may be renewed again.
            if (heldAtUs >= 0) chargedAts[chargedAt + 1] = heldAtUs;
          }
        }
      }
      if (kind === ask || kind === peek) {
        for (let i = 0; i < numbers; i++) {
          const number = reportedNumbers[i] as number;
          digest = mix(digest, number);
          if (reportedNow !== undefined) reportedNow.push(number);
        }
      }
    }
    untilStored -= 1;
    if (reportedNow !== undefined || untilStored === 0 || at + numbersOfEvent >= trace.length) {
      untilStored = storedEvery;
      for (let i = 0; i < count; i++) {
        while (stored.length > 0) stored.pop();
        player.stored(i, nowUs, stored);
        digest = mix(digest, stored.length);
        if (reportedNow !== undefined) reportedNow.push(stored.length);
        for (let k = 0; k < stored.length; k++) {
          digest = mix(digest, stored[k] as number);
          if (reportedNow !== undefined) reportedNow.push(stored[k] as number);
        }
      }
    }
    outcome.digest = digest;
  }
  return outcome;
}

/**
 * Appends two numbers for each entry that has units, oldest first: when its tick began, and its units. Entries without units
 * are a store's own matter, and so is their place in the ring.
 */
export function entriesOf(tickUs: number, counter: CounterState, ring: Ring, into: number[]): void {
  const newest = (counter.atUs / tickUs + counter.offset) % wrap;
  for (let i = 0; i < counter.length; i++) {
    const slot = (counter.first + i) % counter.capacity;
    const start = ring.startAt(counter, slot);
    const next = i + 1 < counter.length ? ring.startAt(counter, (slot + 1) % counter.capacity) : counter.start;
    const units = (next - start + wrap) % wrap;
    if (units > 0) {
      into.push(counter.atUs - ((newest - ring.tickAt(counter, slot) + wrap) % wrap) * tickUs);
      into.push(units);
    }
  }
}

function limitAt(trace: readonly number[], at: number): TraceLimit {
  const algorithm = algorithms[trace[at] as number] as Algorithm;
  const size = trace[at + 3] as number;
  const limit: TraceLimit = {
    algorithm: algorithm === "shaped-bucket" ? "token-bucket" : algorithm,
    quota: trace[at + 1] as number,
    windowUs: trace[at + 2] as number,
    burst: size,
    precisionUs: algorithm === "sliding-window" ? size : 0,
  };
  if (algorithm === "shaped-bucket") {
    limit.initial = trace[at + 4] as number;
    limit.warmUpUs = trace[at + 5] as number;
    keepLegal(limit);
  }
  return limit;
}

/** A shaped-bucket refills within a hundred years, and begins with no more than it holds. */
function keepLegal(limit: TraceLimit): void {
  if (limit.initial === undefined) return;
  limit.burst = Math.max(1, Math.min(limit.burst, Math.floor((limit.quota * 3153600000000000) / limit.windowUs)));
  limit.initial = Math.min(limit.initial, limit.burst);
}

function append(trace: number[], a: number, b: number, c: number, d: number): void {
  const length = trace.length;
  trace[length] = a;
  trace[length + 1] = b;
  trace[length + 2] = c;
  trace[length + 3] = d;
}

/** Appends the moment at which a shaped-bucket began and its warm-up in ms, if it still warms. */
export function beginningOf(counter: CounterState, ring: Ring, into: number[]): void {
  if (counter.length === 0) return;
  into.push(ring.tickAt(counter, counter.first) * wrap + ring.startAt(counter, counter.first));
  into.push(counter.offset);
}

/** Mixes a number into the digest in halves, so that nothing exceeds 2^53. */
function mix(digest: number, value: number): number {
  const high = Math.floor((value + 1) / wrap);
  return (digest * generatorBase + high * 9 + (value + 1 - high * wrap)) % prime;
}

/** State of Lehmer's generator. */
let state = 1;

/** @returns a whole number from 0 to `count` - 1 */
function below(count: number): number {
  state = (state * generatorBase) % prime;
  return Math.floor((state / prime) * count);
}

/** @returns a number of any order of magnitude, each equally likely */
function magnitude(max: number, doublings: number): number {
  let value = 1;
  for (let i = below(doublings + 1); i > 0; i--) value *= 2;
  return Math.min(max, value + below(value));
}

/** @returns few units as often as many, and the maximum now and then */
function randomUnits(): number {
  const choice = below(10);
  if (choice === 0) return maxUnits;
  if (choice < 5) return 1 + below(12);
  return magnitude(maxUnits, 31);
}

function randomInitial(burst: number): number {
  const choice = below(4);
  if (choice === 0) return 0;
  return choice === 1 ? burst : Math.floor(burst / (1 + below(8)));
}

/** @param us in which a few dozen units refill, so that many traces see the end of their warm-up @returns whole ms */
function randomWarmUpUs(us: number): number {
  const choice = below(5);
  if (choice === 0) return 0;
  const ms = choice === 1 ? magnitude(86400000, 27) : Math.floor(us / 1000);
  return Math.max(1000, Math.min(86400000, ms)) * 1000;
}

function randomWindowMs(): number {
  const choice = below(20);
  if (choice === 0) return 1;
  if (choice === 1) return longestWindowMs;
  return magnitude(longestWindowMs, 34);
}

/** @returns a tenth of the window, or whole ms that divide it */
function randomPrecisionUs(windowUs: number): number {
  const blocks = below(3) === 0 ? 1000 : 1 + below(100);
  if (windowUs % (blocks * 1000) === 0) return windowUs / blocks;
  return windowUs / 10;
}

/** @returns mostly one; sometimes everything, or more than there can be */
function randomCost(capacity: number): number {
  const choice = below(20);
  if (choice < 9) return 1;
  if (choice === 9) return Math.min(capacity + 1, maxUnits);
  if (choice < 12) return capacity;
  return 1 + below(Math.max(1, Math.floor(capacity / (1 + below(8)))));
}

/** @returns mostly about the time in which the cost refills; sometimes nothing, sometimes a step back, sometimes a long time */
function randomStepUs(windowUs: number, cost: number, unitUs: number): number {
  const choice = below(100);
  // The shared dict stores 32 bits of a window's index, so it cannot represent a step of 2^31 windows.
  const farUs = windowUs < 1000000 ? day : year;
  const longestUs = Math.min(windowUs * 1000000, 10000000000000);
  if (choice < 30) return 0;
  if (choice < 55) return below(Math.floor(Math.min(1.5 * cost * unitUs, longestUs)) + 1);
  if (choice < 65) return below(5);
  if (choice < 75) return below(windowUs);
  if (choice < 80) return below(Math.floor(windowUs / 50) + 1);
  if (choice < 85) return -below(5000);
  if (choice < 88) return -below(1200000);
  if (choice < 91) return -below(3 * windowUs);
  if (choice === 91) return -hour;
  if (choice === 92) return hour;
  if (choice === 93) return below(10) === 0 ? farUs : -1000;
  if (choice === 94) return below(10) === 0 ? -farUs : 1000;
  if (choice < 97) return windowUs;
  return windowUs - below(3);
}
