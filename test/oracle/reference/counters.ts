// Decides what one limit says of one counter, as docs/algorithms.md has it, in exact arithmetic. A counter that was never used is `undefined`.
// Where the document leaves more than one answer, there is more than one look; what is observed picks among them.

import { windowAround } from "./calendar.ts";
import { type Limit, timeOf } from "./limits.ts";
import {
  ceil,
  floor,
  floorDivide,
  fraction,
  isLess,
  larger,
  largest,
  least,
  minus,
  plus,
  type Rational,
  times,
  whole,
} from "./rational.ts";

export type Counter = (Bucket | FixedWindow | SlidingWindow | Slots | Response) & {
  /** Until then it owes; its state is that of this moment. */
  readonly paidUs?: bigint;
  /** What the clock had shown when it stepped back, if it did since the counter was last used. */
  readonly seenUs?: bigint;
};

/** A token-bucket or a leaky-bucket. */
export interface Bucket {
  readonly kind: "bucket";
  /** When it is full again, on its own clock. */
  readonly full: Rational;
  /** The latest moment at which it was asked. */
  readonly atUs: bigint;
  /** When a top-up found it full, since its last charge: the hour for which it is kept begins anew. */
  readonly toppedUpUs?: bigint;
  /** Of a counter that warms: its beginning, and how long it warms. */
  readonly beganUs?: bigint;
  readonly warmUpUs?: bigint;
  /** Whether `full` was rounded to the parts of a µs of this quota. */
  readonly quota: bigint;
  /** Whether its limit begins with less than a full bucket, or warms. */
  readonly isShaped: boolean;
  /** Whether it had units of another quota, so that its parts of a µs are not known. */
  readonly isRounded?: boolean;
  /** What is stored, if it was read under another quota: a request that charges nothing leaves it as it is. */
  readonly stored?: Pick<Counter & Bucket, "full" | "quota" | "isRounded" | "forgiven">;
  /** Whether it was warm when it last refused: a store may know that or not. */
  readonly wasWarm?: boolean;
  /** Nothing is stored of it yet. */
  readonly begins?: boolean;
  /** In which time a bucket fills that can owe all of it. */
  readonly fillsIn?: Rational;
  /** Of scope cluster: until when it owes what a smaller bucket has forgiven, and in which time that one fills. */
  readonly forgiven?: { readonly until: Rational; readonly by: Rational; readonly isSure: boolean };
}

export interface FixedWindow {
  readonly kind: "fixed-window";
  readonly fromUs: bigint;
  readonly toUs: bigint;
  readonly used: bigint;
  readonly atUs: bigint;
}

/** A sliding-window or a sliding-log: all units that may still count, by the block in which they were taken. */
export interface SlidingWindow {
  readonly kind: "sliding-window";
  readonly taken: readonly { readonly block: bigint; readonly units: bigint }[];
  readonly newest: bigint;
  /** The last block in which any units were taken, even if they were refunded. */
  readonly last: bigint;
  readonly atUs: bigint;
}

/** Slots that are held, by a number of their request. */
export interface Slots {
  readonly kind: "slots";
  readonly held: readonly { readonly request: number; readonly units: bigint }[];
}

/** A response that has not been sent, and what it will be charged to. */
export interface Response {
  readonly kind: "response";
  readonly request: number;
  readonly units: bigint;
  readonly owed: readonly { readonly limit: Limit; readonly counter: string }[];
}

export interface Look {
  readonly allowed: boolean;
  /** Units left, after the charge if it is allowed. */
  readonly remaining: bigint;
  /** Of a refusal: how long until it would be allowed. "never": waiting does not help. "unknown": a slot may be free at any moment. */
  readonly retryUs: bigint | "never" | "unknown";
  /** How long until all units are there, as the documents may have it; empty: they give no number, or there is no such time. */
  readonly resetsUs: readonly bigint[];
  readonly delayUs: bigint;
  /** The counter if the request is charged, and if it is not. */
  readonly charged: Counter | undefined;
  readonly kept: Counter | undefined;
  /** The counter after a charge that was refunded at once. */
  readonly refunded: Counter | undefined;
}

const second = 1_000_000n;
const hour = 3_600n * second;
/** How much longer than an hour a store may keep a bucket that begins with less; and a third of its warm-up, if it filled while it warmed. */
const keptLongerUs = 4n * second;

export interface Moment {
  readonly nowUs: bigint;
  /** Whether the counter is of scope cluster. */
  readonly isShared?: boolean;
  /** A number of the request. */
  readonly request: number;
}

/** The looks that the documents allow. @param cost 0: of a read */
export function look(counter: Counter | undefined, limit: Limit, cost: bigint, moment: Moment): readonly Look[] {
  const owedUs = (counter?.paidUs ?? 0n) - moment.nowUs;
  if (owedUs > 0n) return owing(counter as Counter, limit, cost, owedUs, moment);
  // A store keeps what no longer counts until it gets to it.
  return looksAt(counter, limit, cost, moment).map((one) => ({ ...one, kept: one.kept ?? counter }));
}

/** While a counter owes, it refuses and stays as it is. */
function owing(counter: Counter, limit: Limit, cost: bigint, owedUs: bigint, moment: Moment): readonly Look[] {
  const paid = { ...moment, nowUs: moment.nowUs + owedUs };
  const nothing = looksAt(counter, limit, 0n, paid);
  return looksAt(counter, limit, cost, paid).map(({ allowed, retryUs }, i) => ({
    allowed: false,
    remaining: 0n,
    retryUs: allowed ? owedUs : typeof retryUs === "bigint" ? retryUs + owedUs : retryUs,
    resetsUs: (nothing[i] as Look).resetsUs.map((us) => us + owedUs),
    delayUs: 0n,
    charged: counter,
    kept: counter,
    refunded: counter,
  }));
}

function looksAt(
  counter: Counter | undefined,
  limit: Limit,
  cost: bigint,
  { nowUs, request, isShared = false }: Moment,
): readonly Look[] {
  switch (limit.algorithm) {
    case "token-bucket":
    case "leaky-bucket":
      return bucketsAt(counter as (Counter & Bucket) | undefined, limit, nowUs, isShared).map((bucket) =>
        lookAtBucket(bucket, limit, cost, nowUs),
      );
    case "fixed-window":
      return windowsAt(counter as (Counter & FixedWindow) | undefined, limit, nowUs).map((window) =>
        lookAtWindow(window, limit, cost, nowUs),
      );
    case "sliding-window":
    case "sliding-log":
      return slidingAt(counter as (Counter & SlidingWindow) | undefined, limit, nowUs).map((sliding) =>
        lookAtSliding(sliding, limit, cost, nowUs),
      );
    case "concurrency":
      return [lookAtSlots(counter as Slots | undefined, limit, cost, request)];
  }
}

/** How far a clock may step back so that a counter waits for it. */
function patienceUs({ windowUs }: Limit): bigint {
  return largest(50_000n, least(second, windowUs));
}

// Buckets.

/** What the bucket is now, before the request. */
function bucketsAt(stored: (Counter & Bucket) | undefined, limit: Limit, nowUs: bigint, isShared: boolean): Bucket[] {
  if (stored === undefined) return [newBucket(limit, nowUs)];
  // A full one without `initial` and `warmUp` is deleted sooner or later, so that a refused one may never have been stored.
  if (stored.begins === true && !stored.isShaped) {
    const { begins: _, ...kept } = stored;
    return [newBucket(limit, nowUs), ...bucketsAt(kept, limit, nowUs, isShared)];
  }
  return owedAgain(stored, limit).flatMap((counter) => {
    const present = presentAt(counter, limit, nowUs, isShared);
    if (counter === stored || stored.forgiven === undefined) return present;
    // A refusal may leave what a smaller bucket has forgiven as it was.
    const { full, quota, isRounded = false, forgiven } = stored;
    const asStored = { full, quota, isRounded, forgiven };
    return present.flatMap((one) => (one.begins ? [one] : [one, { ...one, stored: asStored }]));
  });
}

/** A larger bucket than the one that forgave a debt owes it. */
function owedAgain(counter: Counter & Bucket, limit: Limit): (Counter & Bucket)[] {
  const { forgiven, ...own } = counter;
  if (forgiven === undefined || floor(forgiven.by) >= floor(timeOf(limit, limit.capacity))) return [counter];
  const { until, isSure } = forgiven;
  const owing = [until, whole(floor(until)), whole(ceil(until))].map((one) => ({
    ...own,
    full: larger(one, own.full),
    isRounded: true,
    // A smaller bucket may forgive the same debt again: it does not come from a clock that stepped back.
    fillsIn: larger(own.fillsIn ?? whole(0n), minus(until, whole(own.atUs))),
  }));
  return isSure ? owing : [own, ...owing];
}

function presentAt(counter: Counter & Bucket, limit: Limit, nowUs: bigint, isShared: boolean): Bucket[] {
  const { quota } = limit;
  const isEdited = counter.quota !== quota;
  // A bucket of another quota keeps whole µs alone: nothing says how the rest is rounded.
  const fulls = isEdited ? [whole(floor(counter.full)), whole(ceil(counter.full)), counter.full] : [counter.full];
  const rounded = counter.isRounded === true || isEdited;
  const stored = { full: counter.full, quota: counter.quota, isRounded: counter.isRounded === true };
  const readAs = isEdited ? { stored } : {};
  const isColdAgain = counter.wasWarm === true && !isWarm(counter, nowUs);
  const counters = isColdAgain ? [counter, warmed(counter)] : [counter];
  const present = counters.flatMap((one) =>
    fulls.flatMap((full) =>
      bucketsFrom({ ...one, ...readAs, full, quota, isRounded: rounded }, limit, nowUs, isShared),
    ),
  );
  // A bucket that was full may have been deleted before the clock stepped back.
  const keptUs = limit.isShaped ? largest(hour, limit.windowUs, limit.warmUpUs ?? 0n) : 0n;
  const owedUntil = counter.forgiven?.isSure ? counter.forgiven.until : counter.full;
  const fullAgain = larger(larger(counter.full, owedUntil), whole(counter.toppedUpUs ?? 0n));
  const isOver = counter.seenUs !== undefined && !isLess(whole(counter.seenUs - keptUs), fullAgain);
  return isOver ? [newBucket(limit, nowUs), ...present] : present;
}

function bucketsFrom(counter: Bucket, limit: Limit, nowUs: bigint, isShared: boolean): Bucket[] {
  const { begins: _, ...own } = begunBy(counter, limit, nowUs);
  const clock = whole(clockAt(own, nowUs));
  if (!isLess(clock, own.full)) {
    if (!limit.isShaped) return [own];
    // A bucket without `initial` and `warmUp` is deleted when it is full, sooner or later.
    if (!counter.isShaped) return [newBucket(limit, nowUs), own];
    return fullAndShaped(own, limit, nowUs);
  }
  const by = timeOf(limit, limit.capacity);
  const most = plus(clock, by);
  if (!isLess(most, own.full)) return [own];
  if (!isLess(plus(most, whole(patienceUs(limit))), own.full)) return [own];
  // The clock has stepped back behind the top-up, whose moment no longer counts.
  const { forgiven, stored: __, toppedUpUs: ___, ...empty } = { ...own, full: most };
  if (!isShared) return [empty];
  const owed = minus(own.full, clock);
  const before = forgiven?.by ?? own.fillsIn ?? whole(0n);
  // A debt that the bucket before could not owe either comes from a clock that stepped back.
  if (forgiven === undefined && isLess(plus(before, whole(patienceUs(limit) + 1n)), owed)) return [empty];
  const isSure = forgiven?.isSure !== false && !isLess(before, owed);
  const until = forgiven?.until ?? plus(most, whole(ceil(minus(own.full, most))));
  return [{ ...empty, forgiven: { until, by, isSure } }];
}

/** Moves a counter's beginning with a clock that has stepped back behind it. Its debt stays where it is. */
function begunBy(counter: Bucket, limit: Limit, nowUs: bigint): Bucket {
  const { beganUs, warmUpUs } = counter;
  if (beganUs === undefined || warmUpUs === undefined || nowUs + patienceUs(limit) >= beganUs) return counter;
  return { ...counter, beganUs: nowUs };
}

function newBucket(limit: Limit, nowUs: bigint): Bucket {
  const { warmUpUs, quota } = limit;
  const began = warmUpUs === undefined ? {} : { beganUs: nowUs, warmUpUs };
  const empty: Bucket = { kind: "bucket", full: whole(0n), atUs: nowUs, quota, isShaped: limit.isShaped, ...began };
  const full = plus(whole(clockAt(empty, nowUs)), timeOf(limit, limit.capacity - limit.initial));
  return { ...empty, full, fillsIn: timeOf(limit, limit.capacity), begins: true };
}

/** A full bucket with `initial` or `warmUp` is kept for an hour; then it begins anew. A store may keep it a few seconds longer. */
function fullAndShaped(counter: Bucket, limit: Limit, nowUs: bigint): Bucket[] {
  const fullSinceUs = largest(momentOf(counter, counter.full), counter.toppedUpUs ?? 0n);
  const keptUs = largest(hour, limit.windowUs, limit.warmUpUs ?? 0n);
  const over = nowUs - fullSinceUs - keptUs;
  if (over < 0n) return [counter];
  const owedBesideUs = counter.forgiven === undefined ? 0n : ceil(minus(counter.forgiven.until, counter.full));
  const lateUs = keptLongerUs + (limit.warmUpUs ?? 0n) / 3n + largest(owedBesideUs, 0n);
  return over > lateUs ? [newBucket(limit, nowUs)] : [newBucket(limit, nowUs), counter];
}

function isWarm({ beganUs, warmUpUs }: Bucket, nowUs: bigint): boolean {
  return beganUs === undefined || warmUpUs === undefined || nowUs - beganUs >= warmUpUs;
}

/** A bucket that is warm stays warm. */
function warmed({ beganUs: _, warmUpUs: __, wasWarm: ___, ...bucket }: Bucket): Bucket {
  return bucket;
}

/** What the bucket's own clock shows: the time, once it is warm. */
function clockAt({ beganUs, warmUpUs }: Bucket, nowUs: bigint): bigint {
  if (beganUs === undefined || warmUpUs === undefined) return nowUs;
  const age = largest(nowUs - beganUs, 0n);
  if (age >= warmUpUs) return nowUs;
  const shown = floor(plus(fraction(age, 3n), fraction(age * age, 3n * warmUpUs)));
  return beganUs + ceil(fraction(warmUpUs, 3n)) + shown;
}

/** The first whole µs at which the bucket's own clock shows this or more. */
function momentOf(bucket: Bucket, shown: Rational): bigint {
  const { beganUs, warmUpUs } = bucket;
  const wanted = ceil(shown);
  if (beganUs === undefined || warmUpUs === undefined) return wanted;
  const warmUs = beganUs + warmUpUs;
  if (wanted >= warmUs) return wanted;
  let before = beganUs - 1n;
  let from = warmUs;
  while (from - before > 1n) {
    const middle = (from + before) / 2n;
    if (clockAt(bucket, middle) >= wanted) from = middle;
    else before = middle;
  }
  return from;
}

function lookAtBucket(bucket: Bucket, limit: Limit, cost: bigint, nowUs: bigint): Look {
  const clock = whole(clockAt(bucket, nowUs));
  const most = plus(clock, timeOf(limit, limit.capacity));
  const owed = larger(bucket.full, clock);
  const after = plus(owed, timeOf(limit, cost));
  const allowed = cost <= limit.capacity && !isLess(most, after);
  const full = allowed ? after : owed;
  const rate = fraction(limit.quota, limit.windowUs);
  const resetUs = largest(momentOf(bucket, full) - nowUs, 0n);
  const { begins, seenUs: _, stored, ...own }: Bucket & { seenUs?: bigint } = bucket;
  const asked = { ...own, isShaped: limit.isShaped, atUs: largest(bucket.atUs, nowUs) };
  const warms = asked.warmUpUs !== undefined;
  // A refusal need not be stored: a counter that was last charged without `initial` and `warmUp` is forgotten when it is full.
  const refused = { ...asked, isShaped: bucket.isShaped && limit.isShaped };
  const kept = warms && isWarm(bucket, nowUs) ? { ...refused, wasWarm: true } : refused;
  const { toppedUpUs: __, ...used } = isWarm(bucket, nowUs) ? warmed(asked) : asked;
  return {
    allowed,
    remaining: largest(floor(times(minus(most, full), rate)), 0n),
    retryUs: cost > limit.capacity ? "never" : momentOf(bucket, minus(after, timeOf(limit, limit.capacity))) - nowUs,
    resetsUs: bucket.isRounded ? [resetUs, resetUs + 1n, largest(resetUs - 1n, 0n)] : [resetUs],
    delayUs: limit.algorithm === "leaky-bucket" && allowed ? ceil(minus(owed, clock)) : 0n,
    charged: { ...owingMore(used, timeOf(limit, cost)), full: after, fillsIn: fillsInOf(bucket, limit, after, clock) },
    // A refused request does not use the bucket, so its hour goes on.
    kept: begins ? { ...kept, begins } : { ...kept, ...stored },
    refunded: { ...used, full: owed, fillsIn: fillsInOf(bucket, limit, owed, clock) },
  };
}

/** In which time a bucket fills that can owe this: the limit's, unless it owes what only a larger one can. */
function fillsInOf({ fillsIn }: Bucket, limit: Limit, full: Rational, clock: Rational): Rational {
  const own = timeOf(limit, limit.capacity);
  return fillsIn !== undefined && isLess(own, minus(full, clock)) ? larger(fillsIn, own) : own;
}

function owingMore<Owing extends Pick<Bucket, "forgiven">>(bucket: Owing, time: Rational): Owing {
  const { forgiven } = bucket;
  return forgiven === undefined ? bucket : { ...bucket, forgiven: { ...forgiven, until: plus(forgiven.until, time) } };
}

// Fixed windows.

/** No clock shows this time. */
const foreverUs = 10n ** 20n;

function spanAt(limit: Limit, nowUs: bigint): { readonly fromUs: bigint; readonly toUs: bigint } {
  if (limit.isForEver) return { fromUs: 0n, toUs: foreverUs };
  if (limit.calendar === undefined) {
    const fromUs = floorDivide(nowUs, limit.windowUs) * limit.windowUs;
    return { fromUs, toUs: fromUs + limit.windowUs };
  }
  const { unit, timezone, anchor } = limit.calendar;
  const { fromMs, toMs } = windowAround(Number(floorDivide(nowUs, 1_000n)), unit, timezone, anchor);
  return { fromUs: BigInt(fromMs) * 1_000n, toUs: BigInt(toMs) * 1_000n };
}

function windowsAt(counter: (Counter & FixedWindow) | undefined, limit: Limit, nowUs: bigint): FixedWindow[] {
  const span = spanAt(limit, nowUs);
  const fresh: FixedWindow = { kind: "fixed-window", ...span, used: 0n, atUs: nowUs };
  if (counter === undefined || counter.used === 0n || counter.toUs <= nowUs) return [fresh];
  if (nowUs >= counter.fromUs) return counter.toUs <= (counter.seenUs ?? 0n) ? [counter, fresh] : [counter];
  const length = counter.toUs - counter.fromUs;
  const patience = largest(50_000n, least(second, length));
  const moved = { ...fresh, used: counter.used };
  const steppedUs = counter.atUs - nowUs;
  // A window that was over may have been deleted before the clock stepped back.
  const deleted = counter.toUs <= (counter.seenUs ?? 0n) ? [fresh] : [];
  // By how much the clock has stepped back, the counter sees only from the window's beginning.
  if (steppedUs <= patience) return [counter, ...deleted];
  return counter.fromUs - nowUs <= patience ? [counter, moved, ...deleted] : [moved, ...deleted];
}

function lookAtWindow(window: FixedWindow, limit: Limit, cost: bigint, nowUs: bigint): Look {
  const allowed = window.used + cost <= limit.quota;
  const used = allowed ? window.used + cost : window.used;
  const endsUs = window.toUs - nowUs;
  const { seenUs: _, ...stored }: FixedWindow & { seenUs?: bigint } = window;
  const kept = { ...stored, atUs: largest(window.atUs, nowUs) };
  return {
    allowed,
    remaining: largest(limit.quota - used, 0n),
    retryUs: cost > limit.quota || limit.isForEver ? "never" : endsUs,
    resetsUs: limit.isForEver ? [] : [endsUs],
    delayUs: 0n,
    charged: { ...kept, used: window.used + cost },
    kept: window.used === 0n ? undefined : kept,
    refunded: window.used === 0n ? undefined : kept,
  };
}

// Sliding windows.

/** A unit counts while its block is at most so many blocks old. */
function mostAge({ windowUs, blockUs }: Limit): bigint {
  return (windowUs + blockUs - 2n) / blockUs;
}

function slidingAt(counter: (Counter & SlidingWindow) | undefined, limit: Limit, nowUs: bigint): SlidingWindow[] {
  const block = floorDivide(nowUs, limit.blockUs);
  const fresh: SlidingWindow = { kind: "sliding-window", taken: [], newest: block, last: block, atUs: nowUs };
  if (counter === undefined) return [fresh];
  // A counter none of whose units counted may have been deleted before the clock stepped back.
  const isOver = floorDivide(counter.seenUs ?? 0n, limit.blockUs) - counter.last > mostAge(limit);
  // Nor does it matter whether a store has kept one without units.
  const deleted = isOver || counter.taken.length === 0 ? [fresh] : [];
  if (counter.last <= block) return [{ ...counter, newest: block }, ...deleted];
  // To the end of the block that the clock shows, which is where the next one begins.
  const newest = -floorDivide(-nowUs, limit.blockUs);
  const by = counter.last - newest;
  const moved: SlidingWindow = {
    ...counter,
    newest,
    last: newest,
    taken: counter.taken.map(({ block: at, units }) => ({ block: at - by, units })),
  };
  const patience = patienceUs(limit);
  const aheadUs = counter.last * limit.blockUs - nowUs;
  const waiting = { ...counter, newest: counter.last };
  if (counter.atUs - nowUs <= patience) return [waiting, ...deleted];
  return aheadUs <= patience ? [waiting, moved, ...deleted] : [moved, ...deleted];
}

function lookAtSliding(sliding: SlidingWindow, limit: Limit, cost: bigint, nowUs: bigint): Look {
  const most = mostAge(limit);
  const counting = sliding.taken.filter(({ block }) => sliding.newest - block <= most);
  const used = counting.reduce((sum, { units }) => sum + units, 0n);
  const allowed = used + cost <= limit.quota;
  const taken = allowed && cost > 0n ? [...counting, { block: sliding.newest, units: cost }] : counting;
  const returnsUs = (block: bigint) => (block + most + 1n) * limit.blockUs - nowUs;
  let retryUs: bigint | "never" = "never";
  if (cost <= limit.quota) {
    let left = used;
    for (const { block, units } of counting) {
      left -= units;
      retryUs = returnsUs(block);
      if (left + cost <= limit.quota) break;
    }
  }
  const last = taken.at(-1);
  const { seenUs: _, ...stored }: SlidingWindow & { seenUs?: bigint } = sliding;
  const kept = { ...stored, taken: counting, atUs: largest(sliding.atUs, nowUs) };
  const charged = { ...kept, taken: [...counting, { block: sliding.newest, units: cost }], last: sliding.newest };
  const resetUs = last === undefined ? 0n : returnsUs(last.block);
  // A refunded unit may still count as time.
  const lateUs = allowed && cost > 0n ? resetUs : used === 0n ? 0n : returnsUs(sliding.last);
  return {
    allowed,
    remaining: largest(limit.quota - used - (allowed ? cost : 0n), 0n),
    retryUs,
    resetsUs: [resetUs, lateUs],
    delayUs: 0n,
    charged,
    // A refused request leaves the counter as it was.
    kept: sliding.taken.length === 0 ? undefined : { ...kept, taken: sliding.taken },
    refunded: { ...charged, taken: counting },
  };
}

// Slots.

function lookAtSlots(slots: Slots | undefined, limit: Limit, cost: bigint, request: number): Look {
  const held = slots?.held ?? [];
  const used = held.reduce((sum, { units }) => sum + units, 0n);
  const allowed = used + cost <= limit.quota;
  return {
    allowed,
    remaining: largest(limit.quota - used - (allowed ? cost : 0n), 0n),
    retryUs: cost > limit.quota ? "never" : "unknown",
    resetsUs: [],
    delayUs: 0n,
    charged: { kind: "slots", held: [...held, { request, units: cost }] },
    kept: slots,
    refunded: slots,
  };
}

/** The counter without the slots of a request that has ended. */
export function released(slots: Slots, request: number): Slots {
  return { ...slots, held: slots.held.filter((one) => one.request !== request) };
}

/** What the counter may be after an operator has refunded units: the newest first, and no more than were taken. */
export function toppedUp(
  counter: Counter | undefined,
  limit: Limit,
  units: bigint,
  moment: Moment,
): readonly (Counter | undefined)[] {
  return look(counter, limit, 0n, moment).flatMap(({ kept }) => {
    // A counter that begins, or begins anew, has no units to return. A clock that steps back may bring the former one again.
    const isNew = counter === undefined || kept === undefined || (kept.kind === "bucket" && kept.begins === true);
    return isNew ? counter : withMore(kept, limit, units, moment);
  });
}

function withMore(counter: Counter, limit: Limit, units: bigint, { nowUs }: Moment): Counter | readonly Counter[] {
  switch (counter.kind) {
    case "bucket": {
      const clock = whole(clockAt(counter, nowUs));
      if (isLess(counter.full, clock)) return counter.isShaped ? { ...counter, toppedUpUs: nowUs } : counter;
      const full = larger(minus(counter.full, timeOf(limit, least(units, limit.capacity))), clock);
      return {
        ...owingMore(counter, minus(full, counter.full)),
        full,
        fillsIn: fillsInOf(counter, limit, full, clock),
      };
    }
    case "fixed-window":
      return counter.toUs <= nowUs ? counter : { ...counter, used: largest(counter.used - units, 0n) };
    case "sliding-window": {
      let left = units;
      const taken: SlidingWindow["taken"][number][] = [];
      const isCounting = ({ block }: { readonly block: bigint }) => counter.newest - block <= mostAge(limit);
      for (const one of [...counter.taken].reverse()) {
        const counts = isCounting(one);
        const back = counts ? least(left, one.units) : 0n;
        left -= back;
        if (back < one.units) taken.unshift({ ...one, units: one.units - back });
      }
      // A store may forget those that count no more, which a clock that steps back would bring again.
      return [
        { ...counter, taken },
        { ...counter, taken: taken.filter(isCounting) },
      ];
    }
    case "slots":
    case "response":
      return counter;
  }
}
