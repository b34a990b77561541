// The data of a lease that the workers of a node share, in the dict of counters, by an id of the policy's limits and the key:
//
//   ID                the record: packed numbers, then the name under which Redis knows this life of the lease
//   ID:asked          units that clients have requested in total
//   ID:NAME           the units that may be spent: see holder.ts
//   ID:NAME:TERM:undecided  units of requests that another policy may still refuse, and those that were refunded since the
//                     last exchange; ID:NAME:TERM:refunded has these alone
//
// Any of them may find no room, and nothing is evicted for it. A lease without its record begins another life, with another name and
// other units; units that are lost stay unused. While memory is scarce, no lease begins: Redis decides each request. Only the worker
// that holds the claim (in the dict of locks) writes the record. The claim expires if its worker is killed; a worker that has waited
// for Redis checks whether it still holds the claim.

import { type Holder, newHolder } from "../../../../limiter/src/lease/holder.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import { addSafely, countersDict, locksDict } from "../../runtime/shared-memory.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";

/** All fields are numbers except the name. Times are by the stopwatch, in µs. */
export interface LeaseRecord extends Holder {
  /** The name under which Redis knows this life; no blanks. */
  name: string;
  /** When the pending message was last sent. */
  triedUs: number;
  /** 1 while Redis does not answer. */
  lost: number;
  /** Units that the last reply left: those granted, and those kept, in the cell or undecided. */
  out: number;
  /**
   * Of the limit with the fewest units left, as Redis last reported: its index, its whole units, and when it is as if never used.
   */
  mostRestrictive: number;
  remaining: number;
  resetAtUs: number;
}

const numbers = 24;
/** The beginning of each id. While a reload changes the version, workers whose records have another number of fields have leases of their own. */
export const recordKind = `lease${numbers}`;
const bytes = numbers * 8;
const packed = ffi.new("double[?]", numbers);
/** A lease that nobody has used for this long is forgotten. */
const lifeSeconds = 60;
/** From the last fill. Units that are then left stay unused; if the lease is still in use, a cell is made again. */
const cellLifeSeconds = 600;
/** Longer than a term. */
const termLifeSeconds = 90;
/** More than any cell holds: while the cell is frozen, nobody finds units in it. */
const frozen = 2 ** 40;

/** Counts this worker's claims, to distinguish them. */
let claims = 0;

export function newRecord(gatewayName: string): LeaseRecord {
  return {
    ...newHolder(),
    name: `${gatewayName}:${ngx.worker.pid()}-${string.format("%x", stopwatchUs())}`,
    triedUs: 0,
    lost: 0,
    out: 0,
    mostRestrictive: 0,
    remaining: 0,
    resetAtUs: 0,
  };
}

export function cellOf(id: string, name: string): string {
  return `${id}:${name}`;
}

/** @returns whether a record exists */
export function loadRecord(id: string, record: LeaseRecord): boolean {
  const [text] = countersDict.get<string>(id);
  if (text === undefined) return false;
  ffi.copy(packed, text, bytes);
  record.seq = packed.get(0);
  record.waiting = packed.get(1);
  record.acknowledged = packed.get(2);
  record.kept = packed.get(3);
  record.back = packed.get(4);
  record.want = packed.get(5);
  record.sentUs = packed.get(6);
  record.deadlineUs = packed.get(7);
  record.durationUs = packed.get(8);
  record.refusedUntilUs = packed.get(9);
  record.paceUs = packed.get(10);
  record.plenty = packed.get(11);
  record.demand = packed.get(12);
  record.askedBefore = packed.get(13);
  record.estimatedUs = packed.get(14);
  record.triedUs = packed.get(15);
  record.lost = packed.get(16);
  record.out = packed.get(17);
  record.mostRestrictive = packed.get(18);
  record.remaining = packed.get(19);
  record.resetAtUs = packed.get(20);
  record.retryAtUs = packed.get(21);
  record.clientsAtUs = packed.get(22);
  record.termUs = packed.get(23);
  record.name = string.sub(text, bytes + 1);
  return true;
}

/** @returns false: there was no memory, and from now on the record belongs to another life */
export function saveRecord(id: string, record: LeaseRecord): boolean {
  packed.set(0, record.seq);
  packed.set(1, record.waiting);
  packed.set(2, record.acknowledged);
  packed.set(3, record.kept);
  packed.set(4, record.back);
  packed.set(5, record.want);
  packed.set(6, record.sentUs);
  packed.set(7, record.deadlineUs);
  packed.set(8, record.durationUs);
  packed.set(9, record.refusedUntilUs);
  packed.set(10, record.paceUs);
  packed.set(11, record.plenty);
  packed.set(12, record.demand);
  packed.set(13, record.askedBefore);
  packed.set(14, record.estimatedUs);
  packed.set(15, record.triedUs);
  packed.set(16, record.lost);
  packed.set(17, record.out);
  packed.set(18, record.mostRestrictive);
  packed.set(19, record.remaining);
  packed.set(20, record.resetAtUs);
  packed.set(21, record.retryAtUs);
  packed.set(22, record.clientsAtUs);
  packed.set(23, record.termUs);
  return countersDict.safe_set(id, ffi.string(packed, bytes) + record.name, lifeSeconds)[0] === true;
}

/** @returns under which the units of the present term are that are undecided */
export function termOf(cell: string, { termUs }: LeaseRecord): string {
  return `${cell}:${string.format("%.0f", termUs)}`;
}

/** Before the units are taken from the cell. @returns false: there was no memory, and they cannot be refunded */
export function addUndecided(term: string, units: number): boolean {
  return addSafely(countersDict, `${term}:undecided`, units, termLifeSeconds) !== undefined;
}

/** The units are spent, or were not there. */
export function dropUndecided(term: string, units: number): void {
  countersDict.incr(`${term}:undecided`, -units);
}

export function undecidedIn(term: string): number {
  return math.max(0, countersDict.get<number>(`${term}:undecided`)[0] ?? 0);
}

/** They stay undecided, until the worker that may exchange moves them into the cell. */
export function addRefunded(term: string, units: number): void {
  addSafely(countersDict, `${term}:refunded`, units, termLifeSeconds);
}

/** @returns the units that were refunded; they stay undecided */
export function takeRefunded(term: string): number {
  const units = countersDict.get<number>(`${term}:refunded`)[0] ?? 0;
  if (units === 0) return 0;
  countersDict.incr(`${term}:refunded`, -units);
  return units;
}

/** The term has ended. What is refunded later is spent. */
export function forgetTerm(term: string): void {
  countersDict.delete(`${term}:undecided`);
  countersDict.delete(`${term}:refunded`);
}

/** The next worker that uses the lease begins another life. */
export function dropRecord(id: string): void {
  countersDict.delete(id);
}

/** @returns all units that clients have requested, including these */
export function addAsked(id: string, units: number): number {
  return addSafely(countersDict, `${id}:asked`, units, cellLifeSeconds) ?? units;
}

/** @returns the units in the cell; negative or 0 if there are none */
export function unitsIn(cell: string): number {
  return countersDict.get<number>(cell)[0] ?? 0;
}

/** @returns the cell's content afterwards; 0 if there was no memory to create it */
export function takeOut(cell: string, units: number): number {
  return addSafely(countersDict, cell, -units, cellLifeSeconds) ?? 0;
}

/**
 * Freezes the cell, so that nobody finds units in it, until `thaw` sets it to the honoured units and the grant. The record must be
 * written in between: if this worker is killed on the way, there is nothing to spend.
 *
 * @returns the cell's previous content
 */
export function freeze(cell: string): number {
  const left = addSafely(countersDict, cell, -frozen, cellLifeSeconds);
  return left === undefined ? 0 : left + frozen;
}

/**
 * Sets the cell. Nobody has spent from it since `freeze`, so any content is replaced: if this worker was blocked on the way, and
 * another has done the same meanwhile, there are no more units than these.
 *
 * @returns false: there was no memory for them, and they stay unused
 */
export function thaw(cell: string, units: number): boolean {
  return countersDict.safe_set(cell, units, cellLifeSeconds)[0] === true;
}

/** @returns a token that proves the claim; undefined: another worker has the claim */
export function claim(id: string, seconds: number): string | undefined {
  claims += 1;
  const token = `${ngx.worker.pid()} ${claims}`;
  return locksDict.safe_add(id, token, seconds)[0] ? token : undefined;
}

export function isClaimed(id: string, token: string): boolean {
  return locksDict.get<string>(id)[0] === token;
}

export function unclaim(id: string): void {
  locksDict.delete(id);
}
