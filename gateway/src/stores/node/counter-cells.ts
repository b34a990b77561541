// The format of a counter in the shared dict. Its head is one cell: a number with 32 bits of flags beside it.
//
//   buckets        value: the moment in whole µs           flags: the fraction of a µs, in quota-ths
//   fixed-window   value: units used, so that incr works   flags: the window's index, modulo 2^32
//   sliding ones   value: the newest tick in µs            flags: units that count
//
// The entries of the sliding ones are packed numbers of 32 bits in further cells, each of half a page of the dict at most. The first
// of these cells begins with the head's moment and count, followed by first, length, capacity, start and offset of the ring. A
// sliding-log, which needs its entries every time, has this cell in place of the head; until there are entries, the cell holds only
// moment and count.
//
// A key is 16 characters for the counter's family (96 bits of the SHA-1 of app, policy, limit, algorithm and window, in base64, so
// that a counter takes 128 bytes), followed by the key values. The key of a cell of entries has the cell's number and ":" in front.

import { followWindow } from "../../../../limiter/src/algorithms/calendar-window.ts";
import { type Counter, newCounter } from "../../../../limiter/src/algorithms/charge-all.ts";
import { type CounterState, type Ring, wrap } from "../../../../limiter/src/algorithms/counter-state.ts";
import { keepsEntries, lifetimeUs, needsEntries, type Rate } from "../../../../limiter/src/algorithms/rate.ts";
import type { SlidingWindow } from "../../../../limiter/src/algorithms/sliding-window.ts";
import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { countEvent } from "../../metrics/counts.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import { countersDict, lifeSecondsOf, overflowDict } from "../../runtime/shared-memory.ts";
import { isCalm, overflowMayGrow, takeFromReserve } from "./counter-memory.ts";
import { loadPacked, savePacked } from "./packed-cells.ts";

export interface CellCounter extends Counter {
  /** Key of the head's cell, which incr counts at. */
  key: string;
  /** Whether the counter is in the overflow, where several keys share one counter: see shared-cells.ts. */
  shared: boolean;
  /** In the overflow, for a counter without entries: the key of its page and its place in it, see packed-cells.ts. */
  page: string;
  slot: number;
  /** Whether the entries were fetched; if so, they are saved with the head. */
  ringLoaded: boolean;
  /**
   * Whether entries were found, of this head or an earlier one. If they stayed in the dict, a step of the clock could make the
   * head take them for its own.
   */
  ringStored: boolean;
  /** A requested cell had been evicted. */
  cellMissing: boolean;
  /** Bytes of the first cell of entries as stored; 0 if it is not stored or was not fetched. */
  storedBytes: number;
  /** How many entries the stored cells have room for. */
  storedCapacity: number;
  /** The running sum before the oldest entry, as of the fetch. */
  oldestStart: number;
  /**
   * The first cell of entries. Data beyond the counter's capacity, here or in later cells, is left over from an earlier counter.
   */
  readonly firstCell: LuaTable<number, number>;
  readonly laterCells: LaterCell[];
}

interface LaterCell {
  readonly numbers: LuaTable<number, number>;
  loaded: boolean;
  changed: boolean;
}

const headNumbers = 8;
/** For a head without entries: its moment and count. */
const loneHeadNumbers = 3;
const entriesInFirstCell = 236;
const entriesPerCell = 240;
const bytesPerNumber = 4;
const bytesPerEntry = 8;
const bytesInFirstCell = headNumbers * bytesPerNumber + entriesInFirstCell * bytesPerEntry;
/** The bytes that the dict takes for a cell besides its key and value. */
const cellBytes = 68;

/** A log without entries: moment and count. */
const emptyLog = string.rep("\0", loneHeadNumbers * bytesPerNumber);
/** Length of the characters for the counter's family. */
const prefixLength = 16;
/** No counter's key has ":" among its first 16 characters. */
const trialPrefix = "?:";
const trialSeconds = 1;

export function newCellCounter(): CellCounter {
  const counter = newCounter({ algorithm: "fixed-window", quota: 1, windowUs: 1, toleranceUs: 1 }, 1) as CellCounter;
  counter.key = "";
  counter.shared = false;
  counter.page = "";
  counter.slot = 0;
  counter.storedBytes = 0;
  counter.storedCapacity = 0;
  counter.ringLoaded = false;
  counter.ringStored = false;
  counter.cellMissing = false;
  counter.oldestStart = 0;
  const room = counter as { firstCell: LuaTable<number, number>; laterCells: LaterCell[] };
  room.firstCell = ffi.new("uint32_t[?]", headNumbers + 2 * entriesInFirstCell);
  room.laterCells = [];
  return counter;
}

export function counterKey(limit: CompiledLimit, keyValues: string): string {
  return (limit.cellPrefix ?? newPrefix(limit)) + keyValues;
}

/** Returns the dict that holds the counter. */
export function dictOf({ shared }: CellCounter): SharedDict {
  return shared ? overflowDict : countersDict;
}

/** Returns an empty value, with which a counter of this kind begins. */
export function emptyCell({ algorithm }: Rate): string | number {
  return algorithm === "sliding-log" ? emptyLog : 0;
}

function newPrefix(limit: CompiledLimit): string {
  const prefix = ngx.encode_base64(string.sub(ngx.sha1_bin(limit.counterFamily), 1, 12));
  limit.cellPrefix = prefix;
  return prefix;
}

/**
 * Reads a counter; `rate`, `cost` and `key` are set.
 *
 * @returns false if there is no such cell; the state is then that of a counter that was never used
 */
export function loadCounter(counter: CellCounter, nowUs: number): boolean {
  if (counter.shared) return loadShared(counter, nowUs);
  const [value, flags] = countersDict.get<number | string>(counter.key);
  const found = takeHead(counter, value, flags, nowUs);
  if (asksForEntries(counter, nowUs)) loadRing(counter);
  return found;
}

/** The same in the overflow. */
function loadShared(counter: CellCounter, nowUs: number): boolean {
  if (!keepsEntries(counter.rate)) {
    if (counter.rate.algorithm === "calendar-window") followWindow(counter.rate, nowUs);
    if (counter.ringLoaded) forgetRing(counter);
    return loadPacked(counter, counter.rate, counter.page, counter.slot, nowUs);
  }
  const [value, flags] = overflowDict.get<number | string>(counter.key);
  const found = takeHead(counter, value, flags, nowUs);
  if (asksForEntries(counter, nowUs)) loadRing(counter);
  return found;
}

/** Reads only the head, from the dict's value at the counter's key. */
export function takeHead(
  counter: CellCounter,
  value: number | string | undefined,
  flags: number | undefined,
  nowUs: number,
): boolean {
  const { rate } = counter;
  // Data of another counter in this work space, perhaps of another algorithm, must not be saved under this key.
  if (counter.ringLoaded) forgetRing(counter);
  if (rate.algorithm === "sliding-log") {
    takeLog(counter, value as string | undefined);
  } else if (rate.algorithm === "fixed-window" && value !== undefined) {
    // Takes the index nearest to the current one that ends in the stored 32 bits.
    const index = math.floor(nowUs / rate.windowUs);
    let behind = (index - (flags ?? 0)) % wrap;
    if (behind >= wrap / 2) behind -= wrap;
    counter.atUs = (index - behind) * rate.windowUs;
    counter.count = value as number;
  } else {
    if (rate.algorithm === "calendar-window") followWindow(rate, nowUs);
    counter.atUs = (value as number | undefined) ?? 0;
    counter.count = (flags ?? 0) % wrap;
  }
  return value !== undefined;
}

/** Returns whether the decision needs entries that have not been fetched. */
export function asksForEntries(counter: CellCounter, nowUs: number): boolean {
  return !counter.ringLoaded && needsEntries(counter.rate, counter, nowUs, counter.cost);
}

/** Writes what `loadCounter` read and the limiter changed. @returns false: there is no memory, and nothing was counted */
export function saveCounter(counter: CellCounter, nowUs: number): boolean {
  return keepCounter(counter, lifetimeUs(counter.rate, counter, nowUs));
}

/** The same for a counter with the given lifetime. */
export function keepCounter(counter: CellCounter, lifeUs: number): boolean {
  const { rate } = counter;
  if (counter.shared && !keepsEntries(rate)) return savePacked(counter, counter.page, counter.slot, lifeUs);
  const lifeSeconds = lifeSecondsOf(lifeUs);
  if (rate.algorithm === "fixed-window") {
    const index = (counter.atUs / rate.windowUs) % wrap;
    return storeCell(counter.key, counter.count, lifeSeconds, index);
  }
  const isLog = rate.algorithm === "sliding-log";
  let stored = true;
  if (counter.ringLoaded && (isLog || counter.ringStored || counter.length > 0))
    stored = saveRing(counter, lifeSeconds);
  if (isLog) return stored;
  // Entries that found no room are treated like evicted ones: their units expire late, never too early.
  return storeWhereItLies(counter, counter.key, counter.atUs, lifeSeconds, counter.count);
}

/** Fetches the entries if the decision did not need them: a refund does. */
export function loadRing(counter: CellCounter): void {
  if (!keepsEntries(counter.rate) || counter.ringLoaded) return;
  const [stored] = dictOf(counter).get<string>(entriesKey(counter, 0));
  takeEntries(counter, stored);
}

/** Reads the entries, from the dict's value at the key of their first cell. */
export function takeEntries(counter: CellCounter, stored: string | undefined): void {
  counter.ringLoaded = true;
  counter.storedBytes = stored === undefined ? 0 : stored.length;
  const { firstCell } = counter;
  takeCell(firstCell, stored);
  const moment = momentIn(firstCell);
  counter.ringStored = moment > 0;
  // Entries with a moment earlier than the head's do not belong to it any more.
  if (moment === counter.atUs) takeRing(counter, firstCell);
}

function takeLog(counter: CellCounter, stored: string | undefined): void {
  counter.ringLoaded = true;
  counter.storedBytes = stored === undefined ? 0 : stored.length;
  const { firstCell } = counter;
  takeCell(firstCell, stored);
  counter.atUs = momentIn(firstCell);
  counter.count = firstCell.get(2);
  takeRing(counter, firstCell);
}

function takeCell(firstCell: LuaTable<number, number>, stored: string | undefined): void {
  if (stored === undefined) {
    ffi.fill(firstCell, headNumbers * bytesPerNumber);
    return;
  }
  if (stored.length < headNumbers * bytesPerNumber) ffi.fill(firstCell, headNumbers * bytesPerNumber);
  ffi.copy(firstCell, stored, math.min(stored.length, bytesInFirstCell));
}

function takeRing(counter: CellCounter, numbers: LuaTable<number, number>): void {
  counter.first = numbers.get(3);
  counter.length = numbers.get(4);
  counter.capacity = numbers.get(5);
  counter.storedCapacity = counter.capacity;
  counter.start = numbers.get(6);
  counter.offset = numbers.get(7);
  if (counter.length === 0) return;
  counter.oldestStart = cellRing.startAt(counter, counter.first);
  // Either the oldest entry was evicted, or the head was, and was made again in the same tick: these sums are not those of its
  // units.
  const taken = (counter.start - counter.oldestStart) % wrap;
  if (counter.cellMissing || taken > counter.count) forgetEntries(counter);
  counter.cellMissing = false;
}

function forgetRing(counter: CellCounter): void {
  counter.ringLoaded = false;
  counter.ringStored = false;
  counter.cellMissing = false;
  counter.storedBytes = 0;
  counter.storedCapacity = 0;
  forgetEntries(counter);
  if (counter.laterCells.length > 0) forgetLaterCells(counter);
}

function forgetLaterCells(counter: CellCounter): void {
  for (const cell of counter.laterCells) {
    cell.loaded = false;
    cell.changed = false;
  }
}

function forgetEntries(counter: CounterState): void {
  counter.first = 0;
  counter.length = 0;
  counter.capacity = 0;
  counter.start = 0;
  counter.offset = 0;
}

function momentIn(numbers: LuaTable<number, number>): number {
  return numbers.get(0) * wrap + numbers.get(1);
}

/** @returns whether the first cell was stored */
function saveRing(counter: CellCounter, lifeSeconds: number): boolean {
  // The stand-in for an evicted cell is valid for this request only: if stored, it would be taken for entries.
  if (counter.cellMissing || (counter.capacity > counter.storedCapacity && !mayGrow(counter))) forgetEntries(counter);
  packHead(counter);
  const key = entriesKey(counter, 0);
  let bytes = bytesOfCell(counter, 0);
  const { storedBytes } = counter;
  if (storedBytes > 0 && bytes !== storedBytes && !isSameSlab(key, bytes, storedBytes)) {
    bytes = roomFor(counter, key, bytes);
  }
  counter.storedBytes = bytes;
  const stored = storeWhereItLies(counter, key, ffi.string(counter.firstCell, bytes), lifeSeconds, 0);
  if (counter.capacity > entriesInFirstCell) saveLaterCells(counter, lifeSeconds);
  return stored;
}

/** While memory is scarce, a ring that grows takes memory from the same reserve as new counters do. */
function mayGrow(counter: CellCounter): boolean {
  if (counter.shared) return overflowMayGrow();
  if (isCalm()) return true;
  const { key, rate, capacity, storedCapacity } = counter;
  const lifeSeconds = math.max(1, (2 * rate.windowUs) / 1_000_000);
  return takeFromReserve(string.sub(key, 1, prefixLength), (capacity - storedCapacity) * bytesPerEntry, lifeSeconds);
}

/** Returns the memory that a cell takes in the dict. @param bytes of its value */
export function slabOfCell(key: string, bytes: number): number {
  return slabOf(cellBytes + key.length + bytes);
}

/** To store a value of another size, nginx frees the old one first, and may then find no room for the new one. */
function isSameSlab(key: string, bytes: number, storedBytes: number): boolean {
  return slabOfCell(key, bytes) === slabOfCell(key, storedBytes);
}

/**
 * Makes sure that there is room for a first cell of another size before the stored one is freed. If there is none, the cell keeps
 * its size, and a counter that no longer fits forgets its entries: then all its units count as the newest.
 *
 * @returns the number of bytes to store
 */
function roomFor(counter: CellCounter, key: string, bytes: number): number {
  const dict = dictOf(counter);
  const { firstCell, storedBytes } = counter;
  const trial = `${trialPrefix}${key}`;
  if (dict.safe_add(trial, ffi.string(firstCell, bytes - trialPrefix.length), trialSeconds)[0]) {
    dict.delete(trial);
    return bytes;
  }
  if (bytes > storedBytes) {
    forgetEntries(counter);
    packHead(counter);
  }
  return storedBytes;
}

function packHead(counter: CellCounter): void {
  const numbers = counter.firstCell;
  numbers.set(0, math.floor(counter.atUs / wrap));
  numbers.set(1, counter.atUs % wrap);
  numbers.set(2, counter.count);
  numbers.set(3, counter.first);
  numbers.set(4, counter.length);
  numbers.set(5, counter.capacity);
  numbers.set(6, counter.start);
  numbers.set(7, counter.offset);
}

function saveLaterCells(counter: CellCounter, lifeSeconds: number): void {
  for (let later = 0; later < counter.laterCells.length; later++) {
    const cell = counter.laterCells[later] as LaterCell;
    if (!cell.changed) continue;
    const bytes = bytesOfCell(counter, later + 1);
    // A cell that finds no room is treated like an evicted one.
    if (bytes > 0) {
      storeWhereItLies(counter, entriesKey(counter, later + 1), ffi.string(cell.numbers, bytes), lifeSeconds, 0);
    }
  }
}

function bytesOfCell({ length, capacity }: CellCounter, index: number): number {
  if (index > 0) {
    const entries = math.min(capacity - entriesInFirstCell - (index - 1) * entriesPerCell, entriesPerCell);
    return math.max(entries, 0) * bytesPerEntry;
  }
  if (length === 0) return loneHeadNumbers * bytesPerNumber;
  return headNumbers * bytesPerNumber + math.min(capacity, entriesInFirstCell) * bytesPerEntry;
}

export function entriesKey({ rate, key }: CellCounter, index: number): string {
  return index === 0 && rate.algorithm === "sliding-log" ? key : `${index}:${key}`;
}

/** Returns a later cell of entries, which is fetched when it is first needed. */
function openCell(counter: CellCounter, index: number): LaterCell {
  const cell = counter.laterCells[index - 1] ?? newCell(counter, index);
  if (!cell.loaded) {
    cell.loaded = true;
    const [stored] = dictOf(counter).get<string>(entriesKey(counter, index));
    if (stored === undefined) standIn(counter, cell);
    else ffi.copy(cell.numbers, stored, math.min(stored.length, entriesPerCell * bytesPerEntry));
  }
  return cell;
}

function newCell(counter: CellCounter, index: number): LaterCell {
  const { laterCells } = counter;
  // Created in order, so that the list has no holes.
  for (let made = laterCells.length; made < index; made++) {
    laterCells.push({ numbers: ffi.new("uint32_t[?]", 2 * entriesPerCell), loaded: false, changed: false });
  }
  return laterCells[index - 1] as LaterCell;
}

/**
 * Stands in for an evicted cell: it is as if no older unit had expired, and as if none of this cell's units expired before the
 * newest. So units expire late, never too early. At the next charge, or when one of these entries becomes the oldest, all entries
 * are forgotten, and their units count as the newest.
 */
function standIn(counter: CellCounter, cell: LaterCell): void {
  counter.cellMissing = true;
  const { tickUs } = counter.rate as SlidingWindow;
  const tick = (counter.atUs / tickUs + counter.offset) % wrap;
  for (let entry = 0; entry < entriesPerCell; entry++) {
    cell.numbers.set(2 * entry, tick);
    cell.numbers.set(2 * entry + 1, counter.oldestStart);
  }
}

function numberAt(counter: CellCounter, slot: number, at: number): number {
  if (slot < entriesInFirstCell) return counter.firstCell.get(headNumbers + 2 * slot + at);
  const beyond = slot - entriesInFirstCell;
  return openCell(counter, math.floor(beyond / entriesPerCell) + 1).numbers.get(2 * (beyond % entriesPerCell) + at);
}

function putEntry(counter: CellCounter, slot: number, tick: number, start: number): void {
  if (slot < entriesInFirstCell) {
    counter.firstCell.set(headNumbers + 2 * slot, tick);
    counter.firstCell.set(headNumbers + 2 * slot + 1, start);
    return;
  }
  const beyond = slot - entriesInFirstCell;
  const cell = openCell(counter, math.floor(beyond / entriesPerCell) + 1);
  const at = 2 * (beyond % entriesPerCell);
  cell.numbers.set(at, tick);
  cell.numbers.set(at + 1, start);
  cell.changed = true;
}

/**
 * Returns a capacity for at least one more entry, such that the last cell fills its slab; for very many entries, a sixteenth
 * more.
 */
function roomierCapacity(counter: CellCounter, most: number): number {
  const { capacity } = counter;
  const wanted = capacity + 1 + (capacity >= 16 * entriesPerCell ? math.floor(capacity / 16) : 0);
  const beyond = wanted - entriesInFirstCell;
  const index = beyond <= 0 ? 0 : math.ceil(beyond / entriesPerCell);
  const before = index === 0 ? 0 : entriesInFirstCell + (index - 1) * entriesPerCell;
  const taken = cellBytes + entriesKey(counter, index).length + (index === 0 ? headNumbers * bytesPerNumber : 0);
  const room = math.floor((slabOf(taken + (wanted - before) * bytesPerEntry) - taken) / bytesPerEntry);
  return math.min(before + math.min(room, index === 0 ? entriesInFirstCell : entriesPerCell), most);
}

/** Returns the slab size that nginx uses for this many bytes: powers of two up to half a page, then whole pages. */
function slabOf(bytes: number): number {
  if (bytes <= 128) return 128;
  if (bytes <= 256) return 256;
  if (bytes <= 512) return 512;
  if (bytes <= 1024) return 1024;
  return bytes <= 2048 ? 2048 : 4096;
}

export const cellRing: Ring = {
  tickAt: (state, slot) => numberAt(state as CellCounter, slot, 0),
  startAt: (state, slot) => numberAt(state as CellCounter, slot, 1),
  put: (state, slot, tick, start) => putEntry(state as CellCounter, slot, tick, start),
  grow: (state, most) => {
    const counter = state as CellCounter;
    const capacity = roomierCapacity(counter, most);
    if (counter.capacity <= entriesInFirstCell) turnFirstCell(counter);
    else turnEntries(counter);
    if (capacity > entriesInFirstCell) openCells(counter, capacity);
    return capacity;
  },
};

/** Moves the oldest entry to slot 0, and the entries before it behind the last one. A ring that grows is full. */
function turnFirstCell({ firstCell, first, capacity }: CellCounter): void {
  if (first === 0) return;
  const headBytes = headNumbers * bytesPerNumber;
  const packed = ffi.string(firstCell, headBytes + capacity * bytesPerEntry);
  const cut = headBytes + first * bytesPerEntry;
  const turned =
    string.sub(packed, 1, headBytes) + string.sub(packed, cut + 1) + string.sub(packed, headBytes + 1, cut);
  ffi.copy(firstCell, turned, turned.length);
}

/** The same for a ring of several cells. */
function turnEntries(counter: CellCounter): void {
  const ticks: number[] = [];
  const starts: number[] = [];
  for (let entry = 0; entry < counter.length; entry++) {
    const slot = (counter.first + entry) % counter.capacity;
    ticks.push(numberAt(counter, slot, 0));
    starts.push(numberAt(counter, slot, 1));
  }
  for (let entry = 0; entry < counter.length; entry++) {
    putEntry(counter, entry, ticks[entry] as number, starts[entry] as number);
  }
}

/** Opens new cells without reading data that may be in the dict under their numbers. */
function openCells(counter: CellCounter, capacity: number): void {
  const cells = math.ceil((capacity - entriesInFirstCell) / entriesPerCell);
  for (let index = 1; index <= cells; index++) {
    const cell = counter.laterCells[index - 1] ?? newCell(counter, index);
    cell.loaded = true;
    cell.changed = true;
  }
}

/**
 * Stores a cell without evicting anything: an existing cell of the same size is overwritten in place and takes no further memory.
 *
 * @returns false: there is no memory for it
 */
export function storeCell(key: string, value: number | string, lifeSeconds: number, flags: number): boolean {
  // The dict takes flags as signed 32-bit numbers.
  const signedFlags = flags < wrap / 2 ? flags : flags - wrap;
  const [stored, , forcible] = countersDict.safe_set(key, value, lifeSeconds, signedFlags);
  if (forcible) countEvent("evictions");
  return stored === true;
}

/** The same in the overflow. It is a separate function so that LuaJIT knows the dict on every path of a decision. */
export function storeShared(key: string, value: number | string, lifeSeconds: number, flags: number): boolean {
  return overflowDict.safe_set(key, value, lifeSeconds, flags < wrap / 2 ? flags : flags - wrap)[0] === true;
}

/** Stores a cell in the dict that holds the counter. */
function storeWhereItLies(
  { shared }: CellCounter,
  key: string,
  value: number | string,
  lifeSeconds: number,
  flags: number,
): boolean {
  return shared ? storeShared(key, value, lifeSeconds, flags) : storeCell(key, value, lifeSeconds, flags);
}
