// What this worker knows of leases: their records, as it last saw them, and what Redis refused. Leases that nobody uses are forgotten.

import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { askedAt, forgetRefusal } from "../../../../limiter/src/lease/holder.ts";
import { nowUs, sleepMs } from "../../runtime/clock.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import type { Check } from "../store.ts";
import { cellOf, claim, type LeaseRecord, loadRecord, newRecord, saveRecord, unclaim } from "./lease-cells.ts";

/** Times are of the stopwatch, in µs. */
export interface LeaseRefusal {
  readonly cost: number;
  readonly atUs: number;
  readonly untilUs: number;
  readonly askAgainUs: number;
}

/** What this worker knows of the lease of one policy and key. */
export interface Lease {
  /** At any cost. */
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Names the limits and the key: other limits are another lease. */
  readonly id: string;
  /** The record as it was when this worker last looked. */
  readonly record: LeaseRecord;
  cell: string;
  /** Units that clients asked for here, which the record does not know of. */
  asked: number;
  lookedUs: number;
  /** The cost of the last request that the units were not there for. */
  cost: number;
  /** Whether it is among those that are looked at every few ms. */
  watched: boolean;
  /** Whether it was when this worker last looked: units are in hand, or worth asking for. */
  worthWatching: boolean;
  waiting: Semaphore | undefined;
  /** What was refused exactly: until `askAgainUs` the same again, or more, costs Redis nothing. */
  refusal: LeaseRefusal | undefined;
}

/** Leases that nobody has asked for so long are forgotten by this worker. */
const generationUs = 2_000_000;
/** Longer than Redis is waited for. */
const mostForgetTries = 50;
const forgetEveryMs = 5;

let gatewayName = "gateway";
let recent: Record<string, Lease | undefined> = {};
let older: Record<string, Lease | undefined> = {};
let generationEndsUs = 0;

/** @param gatewayId of this nginx, without blanks */
export function openLeases(gatewayId: string): void {
  const random = ngx.md5(`${gatewayId} ${stopwatchUs()} ${ngx.now()} ${tostring({})}`);
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
  return `lease:${ngx.encode_base64(string.sub(ngx.sha1_bin(limits), 1, 12))}`;
}

function newLease(policy: CompiledPolicy, keyValues: string): Lease {
  const lease: Lease = {
    policy,
    keyValues,
    id: idOf(policy, keyValues),
    record: newRecord(gatewayName),
    cell: "",
    asked: 0,
    // Of a key that is asked for once, shared memory keeps nothing.
    lookedUs: stopwatchUs(),
    cost: 1,
    watched: false,
    worthWatching: false,
    waiting: undefined,
    refusal: undefined,
  };
  lease.cell = cellOf(lease.id, lease.record.name);
  refresh(lease);
  return lease;
}

/** @returns whether there is a record */
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

/** Returns a record for a new life, under a name that nobody had. */
export function recordOfNewLife(): LeaseRecord {
  return newRecord(gatewayName);
}

/** What Redis last said of a leased key, to any worker; undefined where it was not asked for units of late, and refused none. */
export function lastKnownOfLease({ policy, keyValues }: Pick<Check, "policy" | "keyValues">): LastKnown | undefined {
  const lease = leaseOf(policy, keyValues);
  refresh(lease);
  const { record, refusal } = lease;
  const atUs = math.max(askedAt(record), refusal?.atUs ?? 0);
  if (atUs === 0) return undefined;
  const aheadUs = nowUs() - stopwatchUs();
  const nothingUntilUs = aheadUs + math.max(record.retryAtUs, refusal?.untilUs ?? 0);
  return { atUs: aheadUs + atUs, nothingUntilUs, limits: undefined };
}

/** When Redis was asked who answered last about a leased key, by the stopwatch; 0: nobody remembers. */
export function leaseKnownSinceUs({ policy, keyValues }: Check): number {
  const lease = leaseOf(policy, keyValues);
  refresh(lease);
  return math.max(askedAt(lease.record), lease.refusal?.atUs ?? 0);
}

/** An operator has changed the counters: Redis is asked again. The other workers, and this one, are to `forgetLeases` then. */
export function forgetLeaseRefusal(this: void, policy: CompiledPolicy, keyValues: string): void {
  if (policy.store !== "leased") return;
  const id = idOf(policy, keyValues);
  let token = claim(id, 1);
  // Whoever has it is being answered, perhaps from before the change.
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
