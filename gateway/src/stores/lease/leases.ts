// What this worker knows of leases: their records as of its last read, and refusals by Redis. Unused leases are forgotten.

import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { askedAt, forgetRefusal } from "../../../../limiter/src/lease/holder.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { nowUs, sleepMs } from "../../runtime/clock.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import { haveUnitsComeBack } from "../redis/refusal-cache.ts";
import type { Check } from "../store.ts";
import {
  cellOf,
  claim,
  type LeaseRecord,
  loadRecord,
  newRecord,
  recordKind,
  saveRecord,
  unclaim,
} from "./lease-cells.ts";

/** Times are by the stopwatch, in µs. */
export interface LeaseRefusal {
  readonly cost: number;
  /** When Redis was asked. */
  readonly atUs: number;
  readonly untilUs: number;
  readonly askAgainUs: number;
  /** What the refusal said: its limit's place in the policy, what was left, and when the limit is as if never used. */
  readonly mostRestrictive: number;
  readonly remaining: number;
  readonly resetAtUs: number;
  /** Whether Redis had no unit for any request; and until when it has none, 0 if some come earlier. */
  readonly isUsedUp: boolean;
  readonly nothingUntilUs: number;
  /** The same moment as `atUs`, since the epoch. */
  readonly submittedAtSeconds: number;
}

/** What this worker knows of the lease of one policy and key. */
export interface Lease {
  /** At any cost. */
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Identifies the limits and the key: other limits are another lease. */
  readonly id: string;
  /** The record as of this worker's last read. */
  readonly record: LeaseRecord;
  cell: string;
  /** Units that clients requested in this worker and that are not in the record yet. */
  asked: number;
  /** The cost of the last request that was admitted. What costs more and is refused is no demand: no lease could have paid it. */
  paid: number;
  lookedUs: number;
  /** The cost of the last request for which the units were missing. */
  cost: number;
  /** Whether the lease is checked every few milliseconds. */
  watched: boolean;
  /** Whether the last check found units in the lease, or found it worth requesting some. */
  worthWatching: boolean;
  waiting: Semaphore | undefined;
  /** The last exact refusal: until `askAgainUs`, a request of the same cost or more is refused without Redis. */
  refusal: LeaseRefusal | undefined;
  /** When Redis was last asked to charge a request by itself, and did; 0: never. */
  chargedUs: number;
}

/** This worker forgets leases that nobody has used for this long. */
const generationUs = 2_000_000;
/** Together longer than a call waits for Redis. */
const mostForgetTries = 50;
const forgetEveryMs = 5;

let gatewayName = "gateway";
let recent: Record<string, Lease | undefined> = {};
let older: Record<string, Lease | undefined> = {};
let generationEndsUs = 0;

/** @param gatewayId of this nginx, without blanks */
export function openLeases(gatewayId: string): void {
  const random = ngx.md5(`${gatewayId} ${stopwatchUs()} ${nowUs()} ${tostring({})}`);
  gatewayName = `${gatewayId}:${string.sub(random, 1, 8)}`;
}

export function leaseOf(policy: CompiledPolicy, keyValues: string): Lease {
  const name = policy.counterPrefix + keyValues;
  const known = recent[name];
  if (known !== undefined && known.policy.limits === policy.limits) return known;
  return recall(name, policy, keyValues);
}

function recall(name: string, policy: CompiledPolicy, keyValues: string): Lease {
  const nowUs = stopwatchUs();
  if (nowUs >= generationEndsUs) {
    older = nowUs < generationEndsUs + generationUs ? recent : {};
    recent = {};
    generationEndsUs = nowUs + generationUs;
  }
  let lease = recent[name] ?? older[name];
  if (lease === undefined || lease.policy.limits !== policy.limits) lease = newLease(policy, keyValues);
  recent[name] = lease;
  return lease;
}

function idOf(policy: CompiledPolicy, keyValues: string): string {
  let limits = policy.counterPrefix + keyValues;
  for (const { rate, counterSuffix } of policy.limits) {
    limits += `${counterSuffix} ${rate.quota} ${capacity(rate)}`;
  }
  return `${recordKind}:${ngx.encode_base64(string.sub(ngx.sha1_bin(limits), 1, 12))}`;
}

function newLease(policy: CompiledPolicy, keyValues: string): Lease {
  const lease: Lease = {
    policy,
    keyValues,
    id: idOf(policy, keyValues),
    record: newRecord(gatewayName),
    cell: "",
    asked: 0,
    paid: 1,
    // As if just checked: for a key that is requested only once, shared memory stores nothing.
    lookedUs: stopwatchUs(),
    cost: 1,
    watched: false,
    worthWatching: false,
    waiting: undefined,
    refusal: undefined,
    chargedUs: 0,
  };
  lease.cell = cellOf(lease.id, lease.record.name);
  refresh(lease);
  return lease;
}

/** @returns the last exact refusal; undefined: there is none, or units that Redis had charged have come back since */
export function refusalOf(lease: Lease): LeaseRefusal | undefined {
  const { policy, keyValues, refusal } = lease;
  if (refusal === undefined) return undefined;
  const key = keyOf(policy, policy.limits[0] as CompiledLimit, keyValues);
  if (haveUnitsComeBack(key, refusal.submittedAtSeconds)) lease.refusal = undefined;
  return lease.refusal;
}

/** @returns whether a record exists */
export function refresh(lease: Lease): boolean {
  const { name } = lease.record;
  const found = loadRecord(lease.id, lease.record);
  if (lease.record.name !== name) lease.cell = cellOf(lease.id, lease.record.name);
  return found;
}

/** Returns the lease that has this one's place in this worker, if there is one. */
export function knownLease({ policy, keyValues }: Lease): Lease | undefined {
  const name = policy.counterPrefix + keyValues;
  return recent[name] ?? older[name];
}

export function keepLease(lease: Lease): void {
  recent[lease.policy.counterPrefix + lease.keyValues] = lease;
}

/** Forgets what this worker knows besides the records. */
export function forgetKnownLeases(): void {
  recent = {};
  older = {};
}

/** Returns a record for a new life, under a name that was never used. */
export function recordOfNewLife(): LeaseRecord {
  return newRecord(gatewayName);
}

/**
 * What Redis last reported of a leased key, to any worker; undefined if it was not asked for units recently, and refused none.
 */
export function lastKnownOfLease({ policy, keyValues }: Pick<Check, "policy" | "keyValues">): LastKnown | undefined {
  const lease = leaseOf(policy, keyValues);
  refresh(lease);
  const { record } = lease;
  const repliedUs = askedAt(record);
  const refusal = refusalOf(lease);
  const aheadUs = nowUs() - stopwatchUs();
  // A later message to Redis knows better.
  if (refusal?.isUsedUp && refusal.atUs > repliedUs && !isCharged(lease, refusal.atUs, refusal.nothingUntilUs)) {
    return { atUs: aheadUs + refusal.atUs, nothingUntilUs: aheadUs + refusal.nothingUntilUs, limits: undefined };
  }
  if (repliedUs === 0) return undefined;
  const nothingUntilUs = isCharged(lease, repliedUs, record.retryAtUs) ? 0 : aheadUs + record.retryAtUs;
  return { atUs: aheadUs + repliedUs, nothingUntilUs, limits: undefined };
}

/** Returns whether Redis has charged the key since then, although there was to be nothing. */
function isCharged({ chargedUs }: Lease, sinceUs: number, nothingUntilUs: number): boolean {
  return chargedUs > sinceUs && chargedUs < nothingUntilUs;
}

/** When the message was sent to which Redis last replied about a leased key, by the stopwatch; 0: unknown. */
export function leaseKnownSinceUs({ policy, keyValues }: Check): number {
  const lease = leaseOf(policy, keyValues);
  refresh(lease);
  return math.max(askedAt(lease.record), lease.refusal?.atUs ?? 0);
}

/**
 * Called when an operator has changed the counters: makes workers ask Redis again. All workers, including this one, must then
 * call `forgetLeases`.
 */
export function forgetLeaseRefusal(this: void, policy: CompiledPolicy, keyValues: string): void {
  if (policy.policy.store !== "leased") return;
  const id = idOf(policy, keyValues);
  let token = claim(id, 1);
  // Another worker holds the claim and may get a reply from before the change.
  for (let tries = 0; token === undefined && tries < mostForgetTries; tries++) {
    sleepMs(forgetEveryMs);
    token = claim(id, 1);
  }
  if (token === undefined) return;
  const record = newRecord(gatewayName);
  if (loadRecord(id, record)) {
    forgetRefusal(record);
    saveRecord(id, record);
  }
  unclaim(id);
}
