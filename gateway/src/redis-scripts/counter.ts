// The format of a counter in Redis: one string for each counter, with a time to live after which the counter counts as unused:
//
//   all                     16 bytes                         atUs, count, 64 bits each (doubles)
//   and sliding ones        + 20 bytes + 8 bytes an entry    if units of earlier ticks count: first, length, capacity,
//                                                            start and offset of the ring and its entries (tick, start),
//                                                            32 bits each
//   and buckets at the end  + 8 bytes or 24 bytes            see bucket-sizes.ts
//
// Everything is little-endian and binary: numbers as text take Redis three times as long. A short counter is read and written as a
// whole. Of a long one, the head and the first entries are, and the other entries in place.

import type { CalendarWindow } from "../../../limiter/src/algorithms/calendar-window.ts";
import { clockToleranceUs, nextCapacity, type Ring } from "../../../limiter/src/algorithms/counter-state.ts";
import { type Debt, isAhead, movesWithClock, standsFromUs } from "../../../limiter/src/algorithms/deferred-charge.ts";
import { lifetimeWindowUs } from "../../../limiter/src/algorithms/fixed-window.ts";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { keepsEntries, lifetimeUs, type Rate, unshapedRateOf } from "../../../limiter/src/algorithms/rate.ts";
import { clockOf, shapedBucket } from "../../../limiter/src/algorithms/shaped-bucket.ts";
import { debtKeyOf } from "../../../limiter/src/protocol/redis-keys.ts";
import { areSizes, type BucketSizes, isBucket, readSizes, sizesOf } from "./bucket-sizes.ts";

declare const redis: {
  call(this: void, command: "TIME"): [seconds: string, micros: string];
  call(this: void, command: "GET", key: string): string | false;
  call(this: void, command: "GETRANGE", key: string, first: number, last: number): string;
  call(this: void, command: "SET", key: string, value: string, px: "PX", ms: string): void;
  call(this: void, command: "SET", key: string, value: string): void;
  call(this: void, command: "SETRANGE", key: string, offset: number, value: string): void;
  call(this: void, command: "PEXPIRE", key: string, ms: string): void;
  /** Returns an error as a table, { err: message }, whose length is 0. */
  pcall(this: void, command: "GET", key: string): string | false;
  pcall(this: void, command: "GETRANGE", key: string, first: number, last: number): string;
  pcall(this: void, command: "SETRANGE", key: string, offset: number, value: string): unknown;
};

/** Redis' own library for packed numbers. */
declare const struct: {
  pack(this: void, format: string, ...numbers: number[]): string;
  unpack(this: void, format: "<dd", text: string): LuaMultiReturn<[number, number]>;
  unpack(this: void, format: string, text: string, position: number): LuaMultiReturn<number[]>;
};

export interface StoredCounter extends BucketSizes {
  key: string;
  /** For a sliding counter: its first entries, in the stored format. */
  text: string;
  /** The last fetched entry beyond those; `none` if there is none. */
  fetchedSlot: number;
  fetchedTick: number;
  fetchedStart: number;
}

const none = -1;
const headBytes = 16;
const ringBytes = 20;
const entryBytes = 8;
const wholeEntries = 16;
const entriesAt = headBytes + ringBytes;
const lastWhole = entriesAt + wholeEntries * entryBytes - 1;
/** A hundred years, in ms. */
export const longestLifetimeMs = 3_155_760_000_000;

export function redisTimeUs(): number {
  const time = redis.call("TIME");
  return (tonumber(time[0]) as number) * 1_000_000 + (tonumber(time[1]) as number);
}

/**
 * @param at index in ARGV of quota (units), window (µs), and burst (units) or precision (µs); of a calendar-window the four moments between
 * which windows lie, in µs since the epoch; of a shaped-bucket "burst/initial/warmUp" (units, units, µs)
 */
export function rateFrom(algorithm: string, argv: string[], at: number): Rate {
  if (algorithm === "calendar-window") return calendarFrom(argv, at);
  if (algorithm === "shaped-bucket") return shapedFrom(argv, at);
  const size = tonumber(argv[at + 2]) as number;
  return unshapedRateOf({
    algorithm: algorithm as Algorithm,
    quota: tonumber(argv[at]) as number,
    windowUs: tonumber(argv[at + 1]) as number,
    burst: size,
    precisionUs: size,
  });
}

function calendarFrom(argv: string[], at: number): CalendarWindow {
  const [previous, start, end, nextEnd] = string.match(argv[at + 2] as string, "^(%d+) (%d+) (%d+) (%d+)$");
  const windowUs = tonumber(argv[at + 1]) as number;
  return {
    algorithm: "calendar-window",
    quota: tonumber(argv[at]) as number,
    windowUs,
    toleranceUs: clockToleranceUs(windowUs),
    previousUs: tonumber(previous) as number,
    startUs: tonumber(start) as number,
    endUs: tonumber(end) as number,
    nextEndUs: tonumber(nextEnd) as number,
  };
}

function shapedFrom(argv: string[], at: number): Rate {
  const [burst, initial, warmUpUs] = string.match(argv[at + 2] as string, "^(%d+)/(%d+)/(%d+)$");
  return shapedBucket(
    tonumber(argv[at]) as number,
    tonumber(argv[at + 1]) as number,
    tonumber(burst) as number,
    tonumber(initial) as number,
    tonumber(warmUpUs) as number,
  );
}

/** Returns a counter that has not been loaded. */
export function counterAt(key: string): StoredCounter {
  return {
    key,
    sizes: "",
    forgivenUs: 0,
    fillsInUs: 0,
    mostOwedUs: 0,
    owedBesideUs: 0,
    loadedAtUs: 0,
    smallerFillsInUs: 0,
    text: "",
    fetchedSlot: none,
    fetchedTick: 0,
    fetchedStart: 0,
    atUs: 0,
    count: 0,
    nextAtUs: 0,
    nextCount: 0,
    stepped: false,
    first: 0,
    length: 0,
    capacity: 0,
    start: 0,
    offset: 0,
  };
}

/** If the stored value is not a counter, it is read as a counter that was never used. */
export function loadCounter(rate: Rate, state: StoredCounter, nowUs: number): void {
  if (keepsEntries(rate)) loadEntries(rate, state);
  else loadHead(rate, state);
  // One condition in the other: a script for other algorithms has none of this.
  if (isBucket(rate)) {
    if (areSizes(state.sizes.length)) {
      readSizes(rate, state, rate.algorithm === "shaped-bucket" ? clockOf(state, redisRing, nowUs) : nowUs);
    }
  }
}

function loadHead(rate: Rate, state: StoredCounter): void {
  const stored = redis.pcall("GET", state.key);
  if (stored === false || stored.length < headBytes) {
    passOver(stored, state.key);
  } else if (isBucket(rate)) {
    state.sizes = string.sub(stored, headBytes + 1);
    if (areSizes(state.sizes.length)) readHead(state, stored);
  } else if (stored.length === headBytes) {
    readHead(state, stored);
  }
}

/** @returns false: these are no numbers of a counter */
function readHead(state: StoredCounter, stored: string): boolean {
  const [atUs, count] = struct.unpack("<dd", stored);
  // This also excludes NaN.
  if (!(atUs >= 0 && count >= 0)) return false;
  state.atUs = atUs;
  state.count = count;
  return true;
}

/**
 * A value of another type is neither a counter nor anything else that Sluice stores. It is read as if nothing were there, and is
 * overwritten. If its error were raised, it would fail all callers whose counters the script has.
 *
 * @param stored the result of `pcall`, which Sluice has not written
 * @throws any other error for which Redis refuses to read the key
 */
export function passOver(stored: unknown, key: string): void {
  if (type(stored) !== "table") return;
  const [wrongType] = string.find((stored as { err: string }).err, "WRONGTYPE", 1, true);
  if (wrongType === undefined) redis.call("GET", key);
}

function loadEntries(rate: Rate, state: StoredCounter): void {
  const stored = redis.pcall("GETRANGE", state.key, 0, lastWhole);
  if (stored.length < headBytes) {
    passOver(stored, state.key);
  } else if (readHead(state, stored)) {
    let end = headBytes;
    if (stored.length > entriesAt + entryBytes - 1) {
      const [first, length, capacity, start, offset] = struct.unpack("<I4I4I4I4I4", stored, headBytes + 1);
      const entriesEnd = entriesAt + math.min(capacity as number, wholeEntries) * entryBytes;
      let isWhole = stored.length === entriesEnd;
      if (isBucket(rate)) isWhole = areSizes(stored.length - entriesEnd);
      // In a damaged ring, all units that count are treated as the newest: they expire late, never too early.
      if (isWhole) {
        state.first = first as number;
        state.length = length as number;
        state.capacity = capacity as number;
        state.start = start as number;
        state.offset = offset as number;
        state.text = string.sub(stored, entriesAt + 1, entriesEnd);
        end = entriesEnd;
      }
    }
    if (isBucket(rate)) state.sizes = string.sub(stored, end + 1);
  }
}

export function saveCounter(rate: Rate, state: StoredCounter, nowUs: number): void {
  keepCounter(rate, state, lifetimeUs(rate, state, nowUs));
}

/** The same for a counter with the given lifetime. */
export function keepCounter(rate: Rate, state: StoredCounter, lifeUs: number): void {
  const { atUs, count, first, length, capacity, start, offset } = state;
  let sizes = "";
  if (isBucket(rate)) sizes = sizesOf(rate, state);
  const life = lifeOf(lifeUs + state.owedBesideUs);
  if (rate.algorithm === "fixed-window" && rate.windowUs === lifetimeWindowUs) {
    // Without a time to live: by the policies "volatile-…", Redis evicts only keys that have one.
    redis.call("SET", state.key, struct.pack("<dd", atUs, count));
  } else if (!keepsEntries(rate) || length === 0) {
    redis.call("SET", state.key, struct.pack("<dd", atUs, count) + sizes, "PX", life);
  } else {
    const head = struct.pack("<ddI4I4I4I4I4", atUs, count, first, length, capacity, start, offset);
    if (capacity > wholeEntries) {
      redis.call("SETRANGE", state.key, 0, head + state.text);
      redis.call("PEXPIRE", state.key, life);
    } else {
      redis.call("SET", state.key, head + state.text + sizes, "PX", life);
    }
  }
}

/** The debt beside the counter: "1700000120000000 1700000000000000 5", paidAtUs, sinceUs and quota. */
export function loadDebt(key: string): Debt {
  const debt: Debt = { paidAtUs: 0, sinceUs: 0, quota: 1 };
  const stored = redis.pcall("GET", key);
  if (stored === false || stored.length === 0) {
    passOver(stored, key);
  } else {
    const [paidAtUs, sinceUs, quota] = string.match(stored, "^(%d+) (%d+) (%d+)$");
    if (paidAtUs !== undefined) {
      debt.paidAtUs = tonumber(paidAtUs) as number;
      debt.sinceUs = tonumber(sinceUs) as number;
      debt.quota = tonumber(quota) as number;
    }
  }
  return debt;
}

/**
 * Returns for how long a loaded counter owes units, in µs: it admits nothing until then. Its debt is read only if the counter is ahead of the
 * clock. The debt's key is not among KEYS, but in the same slot.
 *
 * @param writes whether the debt is saved if it moves with a clock that stepped back
 */
export function unpaidUs(rate: Rate, state: StoredCounter, nowUs: number, writes: boolean): number {
  let us = 0;
  const ahead = isAhead(rate, state, nowUs);
  if (ahead) {
    const key = debtKeyOf(state.key);
    const debt = loadDebt(key);
    const fromUs = standsFromUs(rate, debt, nowUs);
    if (writes && movesWithClock(rate, debt, nowUs)) saveDebt(key, fromUs, nowUs, rate.quota);
    us = fromUs - nowUs;
  }
  return us;
}

export function saveDebt(key: string, paidAtUs: number, nowUs: number, quota: number): void {
  redis.call("SET", key, string.format("%.0f %.0f %.0f", paidAtUs, nowUs, quota), "PX", lifeOf(paidAtUs - nowUs));
}

/**
 * Writes nothing: an empty text creates no string and changes none.
 *
 * @throws the reason why Redis refuses writes: it has no memory left, is a replica, or cannot write to its disk
 */
export function demandWritable(key: string): void {
  const tried = redis.pcall("SETRANGE", key, 0, "");
  if (type(tried) !== "table") return;
  const [wrongType] = string.find((tried as { err: string }).err, "WRONGTYPE", 1, true);
  if (wrongType === undefined) redis.call("SETRANGE", key, 0, "");
}

/** Converts to whole milliseconds, rounded up. */
function lifeOf(lifeUs: number): string {
  const lifeMs = math.min(math.ceil(lifeUs / 1000), longestLifetimeMs);
  // "%d" takes a fifth of the time, but handles at most 32 bits if Redis' Lua has no more.
  return lifeMs < 2_147_483_648 ? string.format("%d", lifeMs) : string.format("%.0f", lifeMs);
}

function numberAt(state: StoredCounter, slot: number, at: number): number {
  if (slot < wholeEntries) {
    const [number] = struct.unpack("<I4", state.text, slot * entryBytes + at + 1);
    return number as number;
  }
  // Tick and start of an entry are read one after the other, so both are fetched at once.
  if (slot !== state.fetchedSlot) {
    const offset = entriesAt + slot * entryBytes;
    const entry = redis.call("GETRANGE", state.key, offset, offset + entryBytes - 1);
    const [tick, start] = struct.unpack("<I4I4", entry, 1);
    state.fetchedSlot = slot;
    state.fetchedTick = tick as number;
    state.fetchedStart = start as number;
  }
  return at === 0 ? state.fetchedTick : state.fetchedStart;
}

/**
 * Returns as many entries as fill the memory block that Redis' allocator hands out for this many: the allocator has four sizes
 * between one power of two and the next, and a string has up to 10 bytes of overhead.
 */
function roomierCapacity(entries: number): number {
  const bytes = entriesAt + entries * entryBytes + 10;
  let step = 16;
  while (step * 8 < bytes) step *= 2;
  return math.floor((math.ceil(bytes / step) * step - entriesAt - 10) / entryBytes);
}

export const redisRing: Ring = {
  tickAt: (state, slot) => numberAt(state as StoredCounter, slot, 0),
  startAt: (state, slot) => numberAt(state as StoredCounter, slot, 4),
  put: (counter, slot, tick, start) => {
    const state = counter as StoredCounter;
    const entry = struct.pack("<I4I4", tick, start);
    const offset = slot * entryBytes;
    if (slot < wholeEntries) {
      state.text = string.sub(state.text, 1, offset) + entry + string.sub(state.text, offset + entryBytes + 1);
    } else {
      state.fetchedSlot = none;
      redis.call("SETRANGE", state.key, entriesAt + offset, entry);
    }
  },
  // The ring is rewritten as a whole at its new size: a string that SETRANGE extends takes up to twice its bytes.
  grow: (counter, most) => {
    const state = counter as StoredCounter;
    state.fetchedSlot = none;
    const capacity = math.min(roomierCapacity(nextCapacity(state.capacity, most)), most);
    let entries = state.text;
    if (state.capacity > wholeEntries) entries = redis.call("GETRANGE", state.key, entriesAt, -1);
    const firstByte = state.first * entryBytes;
    const bytes = state.length * entryBytes;
    let moved = string.sub(entries, firstByte + 1, firstByte + bytes);
    moved = moved + string.sub(entries, 1, bytes - moved.length);
    moved = moved + string.rep("\0", capacity * entryBytes - bytes);
    if (capacity > wholeEntries) {
      // The bytes before the entries, and the time to live, are written when the counter is saved.
      redis.call("SET", state.key, string.rep("0", entriesAt) + moved, "PX", "1000");
    }
    state.text = string.sub(moved, 1, wholeEntries * entryBytes);
    return capacity;
  },
};
