// What the workers of a node share of a lease, in the dict of counters, by an id of the policy's limits and the key:
//
//   lease:ID          the record: packed numbers, then the name under which Redis knows this life of the lease
//   lease:ID:asked    units that clients asked for, ever
//   lease:ID:NAME     the units that may be spent: see holder.ts
//
// Any of them may find no room, and nothing is evicted for it. Without its record a lease begins another life, under another name
// and with other units; units that are gone go unused. While memory is scarce, none begins: Redis decides each request. The record is written only by whoever has the claim (in the dict of locks), which falls open by
// itself should its worker be killed: whoever waited for Redis meanwhile asks whether he still has it.

import { type Holder, newHolder } from "../../../../limiter/src/lease/holder.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import { addSafely, countersDict, locksDict } from "../../runtime/shared-memory.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";

/** Numbers but for the name. Times are of the stopwatch, in µs. */
export interface LeaseRecord extends Holder {
  /** Under which Redis knows it, in this life: no blanks. */
  name: string;
  /** The waiting message was sent last. */
  triedUs: number;
  /** 1 while Redis does not answer. */
  lost: number;
  /** Units that the last answer left in the cell, those kept and those granted. */
  out: number;
  /** Of the limit with the least left, as Redis last said: which one, whole units, and when it is as if never used. */
  mostRestrictive: number;
  remaining: number;
  resetAtUs: number;
}

const numbers = 23;
const bytes = numbers * 8;
const packed = ffi.new("double[?]", numbers);
/** Nothing is known any more of what nobody asked for so long. */
const lifeSeconds = 60;
/** From when it was last filled. What it holds then goes unused; should it be needed still, it is made again. */
const cellLifeSeconds = 600;
/** More than any cell holds: while it is frozen, nobody finds units in it. */
const frozen = 2 ** 40;

/** Of this worker: distinguishes claims. */
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

/** @returns whether there is one */
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
  record.name = string.sub(text, bytes + 1);
  return true;
}

/** @returns false: there was no memory for it, and it is another life's from now on */
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
  return countersDict.safe_set(id, ffi.string(packed, bytes) + record.name, lifeSeconds)[0] === true;
}

/** The next who asks for it begins another life. */
export function dropRecord(id: string): void {
  countersDict.delete(id);
}

/** @returns all that clients have asked for, with these */
export function addAsked(id: string, units: number): number {
  return addSafely(countersDict, `${id}:asked`, units, cellLifeSeconds) ?? units;
}

/** @returns the units in the cell, negative or 0 where there are none */
export function unitsIn(cell: string): number {
  return countersDict.get<number>(cell)[0] ?? 0;
}

/** @returns what is in the cell then; 0 where there was no memory to make it */
export function takeOut(cell: string, units: number): number {
  return addSafely(countersDict, cell, -units, cellLifeSeconds) ?? 0;
}

/**
 * Makes the cell hold what of its units was honoured, and the grant. The record is to be written in between: should this worker
 * be killed on the way, there is nothing to spend.
 *
 * @returns what was in the cell
 */
export function freeze(cell: string): number {
  const left = addSafely(countersDict, cell, -frozen, cellLifeSeconds);
  return left === undefined ? 0 : left + frozen;
}

/**
 * Nobody has spent since, so whatever is there is replaced: should this worker have stood still on the way, and another have
 * done the same meanwhile, there are no more units than these.
 *
 * @returns false: there was no memory for them, and they go unused
 */
export function thaw(cell: string, units: number): boolean {
  return countersDict.safe_set(cell, units, cellLifeSeconds)[0] === true;
}

/** @returns what proves that one has it; undefined: another has */
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
