// A counter as it lies in the shared dict. Its head is one cell: a number with 32 bits of flags beside it.
//
//   buckets        value: the moment in whole µs           flags: the quota-ths of a µs
//   fixed-window   value: units used, so that incr works   flags: the window's index, modulo 2^32
//   sliding ones   value: the newest tick in µs            flags: units that count
//
// The entries of the sliding ones are packed numbers of 32 bits in further cells, of half a page of the dict at most: the
// first begins with the head's moment and count, then first, length, capacity, start and offset of the ring. A sliding-log,
// which asks for entries every time, has this cell in the head's place; until there are entries, moment and count are all
// that is there.
//
// A key is 16 characters that stand for the counter's family (96 bits of the SHA-1 of app, policy, limit, algorithm and
// window, in base64, so that a counter takes 128 bytes), then the key values; of a cell of entries, behind its number and ":".

import { type Counter, newCounter } from "../../../../limiter/src/algorithms/charge-all.ts";
import { type CounterState, type Ring, wrap } from "../../../../limiter/src/algorithms/counter-state.ts";
import { keepsEntries, lifetimeUs, type Rate } from "../../../../limiter/src/algorithms/rate.ts";
import { needsRing, type SlidingWindow } from "../../../../limiter/src/algorithms/sliding-window.ts";
import { shared, sharing } from "../../../../limiter/src/basics/sharing.ts";
import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { countEvent } from "../../metrics/counts.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import { countersDict, overflowDict } from "../../runtime/shared-memory.ts";
import { isCalm, overflowMayGrow, takeFromReserve } from "./counter-memory.ts";
import { loadPacked, savePacked } from "./packed-cells.ts";

export interface CellCounter extends Counter {
  /** Of the head's cell: what incr counts at. */
  key: string;
  /** Whether it lies in the overflow, where several keys have one counter: see shared-cells.ts. */
  shared: boolean;
  /** There, without entries, the page that it lies in, and where: see packed-cells.ts. */
  page: string;
  slot: number;
  /** Whether the entries were fetched: they are saved with the head then. */
  ringLoaded: boolean;
  /** Whether entries were found, of this head or an earlier one: left there, a clock that steps could make them its own. */
  ringStored: boolean;
  /** A cell that was asked for had been evicted. */
  cellMissing: boolean;
  /** Of the first cell of entries as it is stored; 0 where it is not, or was not fetched. */
  storedBytes: number;
  /** Entries that there is room for in what is stored. */
  storedCapacity: number;
  /** The running sum before the oldest entry, when it was fetched. */
  oldestStart: number;
  /** The first cell of entries. What lies here or later beyond the counter's capacity is an earlier counter's. */
  readonly firstCell: LuaTable<number, number>;
  readonly laterCells: LaterCell[];
}

interface LaterCell {
  readonly numbers: LuaTable<number, number>;
  loaded: boolean;
  changed: boolean;
}

/** A hundred years; the shared dict counts its ms in a long. */
const longestLifetimeSeconds = 3_155_760_000;

const headNumbers = 8;
/** Of a head without entries: its moment and count. */
const loneHeadNumbers = 3;
const entriesInFirstCell = 236;
const entriesPerCell = 240;
const bytesPerNumber = 4;
const bytesPerEntry = 8;
const bytesInFirstCell = headNumbers * bytesPerNumber + entriesInFirstCell * bytesPerEntry;
/** What the dict takes for a cell besides its key and value. */
const cellBytes = 68;

/** By counter family: limits that were edited, and bring up their counters again, are of the same. */
const familyCharacters = sharing<string>();
/** A log without entries: moment and count. */
const emptyLog = string.rep("\0", loneHeadNumbers * bytesPerNumber);
/** Of the characters that stand for the counter's family. */
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

/** Where the counter lies. */
export function dictOf({ shared }: CellCounter): SharedDict {
  return shared ? overflowDict : countersDict;
}

/** A value that says nothing, such as a counter of this kind begins with. */
export function emptyCell({ algorithm }: Rate): string | number {
  return algorithm === "sliding-log" ? emptyLog : 0;
}

function newPrefix(limit: CompiledLimit): string {
  const family = limit.counterFamily;
  const characters = shared(familyCharacters, family, () => ngx.encode_base64(string.sub(ngx.sha1_bin(family), 1, 12)));
  limit.cellPrefix = characters;
  return characters;
}

/**
 * Reads a counter; `rate`, `cost` and `key` are set.
 *
 * @returns false, with the state of a counter never seen, when there is no such cell
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
    if (counter.ringLoaded) forgetRing(counter);
    return loadPacked(counter, counter.rate, counter.page, counter.slot, nowUs);
  }
  const [value, flags] = overflowDict.get<number | string>(counter.key);
  const found = takeHead(counter, value, flags, nowUs);
  if (asksForEntries(counter, nowUs)) loadRing(counter);
  return found;
}

/** The head alone, from what the dict has at the counter's key. */
export function takeHead(
  counter: CellCounter,
  value: number | string | undefined,
  flags: number | undefined,
  nowUs: number,
): boolean {
  const { rate } = counter;
  // What another counter had here, of another algorithm perhaps, must not be saved under this one's name.
  if (counter.ringLoaded) forgetRing(counter);
  if (rate.algorithm === "sliding-log") {
    takeLog(counter, value as string | undefined);
  } else if (rate.algorithm === "fixed-window" && value !== undefined) {
    // The index nearest to now's among those that end in the stored 32 bits.
    const index = math.floor(nowUs / rate.windowUs);
    let behind = (index - (flags ?? 0)) % wrap;
    if (behind >= wrap / 2) behind -= wrap;
    counter.atUs = (index - behind) * rate.windowUs;
    counter.count = value as number;
  } else {
    counter.atUs = (value as number | undefined) ?? 0;
    counter.count = (flags ?? 0) % wrap;
  }
  return value !== undefined;
}

/** Whether deciding takes entries that are not there yet. */
export function asksForEntries(counter: CellCounter, nowUs: number): boolean {
  const { rate } = counter;
  return keepsEntries(rate) && !counter.ringLoaded && needsRing(rate, counter, nowUs, counter.cost);
}

/** Writes what `loadCounter` read and the limiter changed. @returns false: there is no memory, and nothing was counted */
export function saveCounter(counter: CellCounter, nowUs: number): boolean {
  return keepCounter(counter, lifetimeUs(counter.rate, counter, nowUs));
}

/** The same for a counter that is to be kept for so long. */
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
  // Entries that found no room are missed as evicted ones are: late, and never too early.
  return storeWhereItLies(counter, counter.key, counter.atUs, lifeSeconds, counter.count);
}

/** A lifetime of 0 would be for ever, so a started ms counts whole. */
export function lifeSecondsOf(lifeUs: number): number {
  return math.min(math.ceil(lifeUs / 1000) / 1000, longestLifetimeSeconds);
}

/** Fetches the entries, where deciding did not ask for them: a refund does. */
export function loadRing(counter: CellCounter): void {
  if (!keepsEntries(counter.rate) || counter.ringLoaded) return;
  const [stored] = dictOf(counter).get<string>(entriesKey(counter, 0));
  takeEntries(counter, stored);
}

/** The entries, from what the dict has at the key of their first cell. */
export function takeEntries(counter: CellCounter, stored: string | undefined): void {
  counter.ringLoaded = true;
  counter.storedBytes = stored === undefined ? 0 : stored.length;
  const { firstCell } = counter;
  takeCell(firstCell, stored);
  const moment = momentIn(firstCell);
  counter.ringStored = moment > 0;
  // Entries of a time before this head are no longer its own.
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
  // The oldest entry was evicted; or the head was, and made anew in the same tick: these sums are not those of its units.
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

/** @returns whether the first cell is stored */
function saveRing(counter: CellCounter, lifeSeconds: number): boolean {
  // What stood in for an evicted cell holds for this request alone: stored, it would be taken for entries.
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

/** Where memory is scarce, what grows takes it from those who come as newcomers do. */
function mayGrow(counter: CellCounter): boolean {
  if (counter.shared) return overflowMayGrow();
  if (isCalm()) return true;
  const { key, rate, capacity, storedCapacity } = counter;
  const lifeSeconds = math.max(1, (2 * rate.windowUs) / 1_000_000);
  return takeFromReserve(string.sub(key, 1, prefixLength), (capacity - storedCapacity) * bytesPerEntry, lifeSeconds);
}

/** What a cell takes of the dict. @param bytes of its value */
export function slabOfCell(key: string, bytes: number): number {
  return slabOf(cellBytes + key.length + bytes);
}

/** To store a value of another size, nginx frees the old one first, and may not find room for the new one then. */
function isSameSlab(key: string, bytes: number, storedBytes: number): boolean {
  return slabOfCell(key, bytes) === slabOfCell(key, storedBytes);
}

/**
 * Makes sure that a first cell of another size will find room before the one that is stored is freed. Where there is none, the
 * cell keeps its size, and a counter that no longer fits forgets its entries: all its units count as the newest ones then.
 *
 * @returns the bytes to store
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
    // One that finds no room is missed as an evicted one is.
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

/** A later cell of entries, fetched when it is first asked for. */
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
  // In order, so that the list has no holes.
  for (let made = laterCells.length; made < index; made++) {
    laterCells.push({ numbers: ffi.new("uint32_t[?]", 2 * entriesPerCell), loaded: false, changed: false });
  }
  return laterCells[index - 1] as LaterCell;
}

/**
 * An evicted cell: as if nothing that is older had come back, and none of its units before the newest's do. Late, and
 * never too early. At the next charge, or when one of its entries has become the oldest, all entries are forgotten, and
 * count as the newest's.
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

/** Room for one more entry at least, such that the last cell fills its slab; a sixteenth more where there are very many. */
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

/** What nginx's slabs have for so many bytes: powers of two up to half a page, then whole pages. */
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

/** Moves the oldest entry to slot 0, and those before it behind the last; a ring that grows is full. */
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

/** What lies in the dict under the number of a new cell is not asked for. */
function openCells(counter: CellCounter, capacity: number): void {
  const cells = math.ceil((capacity - entriesInFirstCell) / entriesPerCell);
  for (let index = 1; index <= cells; index++) {
    const cell = counter.laterCells[index - 1] ?? newCell(counter, index);
    cell.loaded = true;
    cell.changed = true;
  }
}

/**
 * Evicts nothing: an existing cell of the same size is overwritten where it is, and takes no memory.
 *
 * @returns false: there is no memory for it
 */
export function storeCell(key: string, value: number | string, lifeSeconds: number, flags: number): boolean {
  // The dict takes flags as signed numbers of 32 bits.
  const signedFlags = flags < wrap / 2 ? flags : flags - wrap;
  const [stored, , forcible] = countersDict.safe_set(key, value, lifeSeconds, signedFlags);
  if (forcible) countEvent("evictions");
  return stored === true;
}

/** The same in the overflow. By itself, so that LuaJIT knows on the way of every decision which dict it is. */
export function storeShared(key: string, value: number | string, lifeSeconds: number, flags: number): boolean {
  return overflowDict.safe_set(key, value, lifeSeconds, flags < wrap / 2 ? flags : flags - wrap)[0] === true;
}

/** Where the counter lies. */
function storeWhereItLies(
  { shared }: CellCounter,
  key: string,
  value: number | string,
  lifeSeconds: number,
  flags: number,
): boolean {
  return shared ? storeShared(key, value, lifeSeconds, flags) : storeCell(key, value, lifeSeconds, flags);
}
