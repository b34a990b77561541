// Policies whose requests cost what their responses take: asked before, when nothing is charged, and settled when the
// response has been sent.
//
// A request is known by its address in nginx and when it began: both stay the same through internal redirects, so that its
// response is settled once. The log phase may not yield; what needs a lock or Redis waits for one timer of the worker, summed
// by policy and key, and Redis is told of many at once.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { addPending, type Event } from "../metrics/counts.ts";
import { keepForRequest, newRequestField, ofRequest } from "../request/request-state.ts";
import { runUntilDone } from "../runtime/background.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings } from "../settings.ts";
import type { Check, Owed } from "../stores/check.ts";
import { admitDeferredOnNode, chargeDeferredOnNode } from "../stores/node/deferred-charge.ts";
import { decideOnNode, mustAgree } from "../stores/node/node-store.ts";
import { isUncharged, noteUncharged, owe } from "../stores/redis/debts.ts";
import { admitDeferredInRedis, chargeDeferredInRedis } from "../stores/redis/deferred-charge.ts";
import { decideInRedis } from "../stores/redis/redis-store.ts";
import { nodeShare } from "../stores/share/node-share.ts";

/** Whose counters a response is charged to. */
interface Payer {
  readonly policy: CompiledPolicy;
  /** None: onStoreFailure let the request pass. */
  readonly limits: readonly CompiledLimit[];
  readonly keyValues: string;
  /** Undefined: counted on this node. */
  readonly redis: RedisSettings | undefined;
  /** Counted on this node because Redis did not decide, and told to it later. */
  readonly owed?: Owed | undefined;
}

interface DeferredCharge extends Payer {
  units: number;
  /** How many took these. */
  responses: number;
}

/** Of one worker, by policy and key: more are not settled. A megabyte or two. */
const mostWaiting = 10_000;
/** Two keys and five arguments each: with many more, Lua could not pass them all in one call. */
const mostCountersPerCall = 200;

/** Of the current request. A record of them is charged once, whatever redirects the request went through. */
const payersField = newRequestField<Payer[]>(chargeResponse);

let waiting: DeferredCharge[] = [];
let waitingByPayer: Record<string, DeferredCharge | undefined> = {};
let draining = false;

/** As `decideOnNode`; of a policy that settles later, only asks. */
export function admitOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  merged: MergedDecision | undefined,
  chargedAt: number[],
): boolean {
  if (policy.deferred) return admitDeferredOnNode(policy, limits, keyValues, merged);
  return decideOnNode(policy, limits, keyValues, merged, chargedAt);
}

/** As `decideInRedis`; of a policy that settles later, which comes by itself, only asks. */
export function admitInRedis(
  settings: RedisSettings,
  checks: readonly Check[],
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const first = checks[0] as Check;
  if (first.policy.deferred) {
    const { policy, keyValues } = first;
    if (isUncharged(settings, policy, keyValues)) return $multi(undefined, "it has not been told what responses took");
    return admitDeferredInRedis(settings, first, merged);
  }
  return decideInRedis(settings, checks, merged);
}

/** Notes that the current request went on: its response will be charged. */
export function deferCharge({ policy, limits, keyValues, redis, owed }: Payer): void {
  const payers = ofRequest(payersField) ?? [];
  for (const payer of payers) {
    // Met again in another location, behind an internal redirect.
    if (payer.policy.counterPrefix === policy.counterPrefix && payer.keyValues === keyValues) return;
  }
  payers.push({ policy, limits, keyValues, redis, owed });
  if (payers.length === 1) keepForRequest(payersField, payers);
}

/** Charges what the response took, the bytes of its body that were sent. Without the log phase, nobody knows how many. */
function chargeResponse(this: void, payers: readonly Payer[], inLogPhase: boolean): void {
  const units = inLogPhase ? (tonumber(ngx.var["body_bytes_sent"]) ?? 0) : 0;
  if (units < 1) return;
  for (const payer of payers) {
    const { policy, limits, keyValues, redis, owed } = payer;
    if (owed !== undefined) owe(owed.redis, policy, keyValues, units);
    if (redis === undefined && !mustAgree()) chargeDeferredOnNode(policy, limits, keyValues, units);
    else queueCharge(payer, units);
  }
}

function queueCharge({ policy, limits, keyValues, redis }: Payer, units: number): void {
  const name = policy.counterPrefix + keyValues;
  const earlier = waitingByPayer[name];
  // A share of a node is not Redis' to charge.
  if (earlier !== undefined && earlier.redis === redis) {
    earlier.units += units;
    earlier.responses += 1;
  } else if (waiting.length >= mostWaiting) {
    countUncharged(1);
  } else {
    const charge = { policy, limits, keyValues, redis, units, responses: 1 };
    waiting.push(charge);
    waitingByPayer[name] = charge;
  }
  if (draining) return;
  const failure = runUntilDone(drain);
  // Without a timer they wait for the next response.
  if (failure !== undefined) warnSparingly("responses are settled late", failure);
  else draining = true;
}

/** @returns whether more wait by now */
function drain(): boolean {
  const charges = waiting;
  waiting = [];
  waitingByPayer = {};
  const [settled, failure] = pcall(chargeAllDeferred, charges);
  if (!settled) warnSparingly("responses were not settled", `${failure}`);
  draining = waiting.length > 0;
  return draining;
}

function chargeAllDeferred(charges: readonly DeferredCharge[]): void {
  let call: DeferredCharge[] = [];
  let counters = 0;
  for (const charge of charges) {
    const { policy, limits, keyValues, redis, units } = charge;
    if (redis === undefined) {
      chargeDeferredOnNode(policy, limits, keyValues, units);
      continue;
    }
    if (counters + limits.length > mostCountersPerCall) {
      chargeTogether(call);
      call = [];
      counters = 0;
    }
    call.push(charge);
    counters += limits.length;
  }
  if (call.length > 0) chargeTogether(call);
}

/** A call that failed may have been run: what it was to charge is not charged a second time. */
function chargeTogether(charges: readonly DeferredCharge[]): void {
  const { redis } = charges[0] as DeferredCharge;
  const uncharged = chargeDeferredInRedis(redis as RedisSettings, charges);
  if (uncharged === undefined) return;
  warnSparingly("what responses took was not charged at once", uncharged.failure);
  for (const { responses } of uncharged.unknown) countUncharged(responses);
  for (const charge of uncharged.notCharged) chargeLate(redis as RedisSettings, charge);
}

/** Until Redis has been told, this node's share knows of it: that decides then. */
function chargeLate(redis: RedisSettings, { policy, keyValues, units }: DeferredCharge): void {
  owe(redis, policy, keyValues, units);
  noteUncharged(redis, policy, keyValues);
  if (policy.policy.onStoreFailure === "local") chargeDeferredOnNode(policy, nodeShare(policy), keyValues, units);
}

function countUncharged(responses: number): void {
  const event: Event = "unsettled-responses";
  addPending(event, responses);
}
