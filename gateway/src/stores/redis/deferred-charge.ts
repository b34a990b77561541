// What requests took after they went on, in Redis: see limiter/src/algorithms/deferred-charge.ts. A debt lies beside its counter, in the same
// hash slot.

import { emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { newPatience } from "../../redis/patience.ts";
import { callForNumbers } from "../../redis/script-reply.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Check } from "../check.ts";
import { deferredScript, waitLimitMs } from "./redis-store.ts";
import { keyOf, pushNumbers } from "./script-arguments.ts";
import { groupsOf } from "./slot-groups.ts";

/** What requests of one policy and key took together. */
export interface Took {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** 1 or more. */
  readonly units: number;
}

const numbersPerCounter = 4;

/**
 * Whether a request may go on whose units are settled later. Charges nothing.
 *
 * @param verdictOfAll hears every limit when Redis decided, unless the check has a verdict of its own
 * @returns undefined and what failed, when Redis did not decide
 */
export function admitDeferredInRedis(
  settings: RedisSettings,
  { policy, keyValues, merged }: Check,
  mergedOfAll: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const keys: string[] = [];
  const args: string[] = [];
  push(keys, args, policy, keyValues, 0);
  const count = policy.limits.length * numbersPerCounter;
  const patience = newPatience(settings.deadlineMs, waitLimitMs(settings, policy.policy));
  const [reply, failure] = callForNumbers(settings, deferredScript, keys.length, [...keys, ...args], count, patience);
  if (reply === undefined) return $multi(undefined, failure);
  const decision = emptyDecision();
  let allowed = true;
  for (let i = 0; i < policy.limits.length; i++) {
    const { rate, name } = policy.limits[i] as CompiledLimit;
    const at = i * numbersPerCounter;
    decision.allowed = reply[at] === 1;
    decision.limit = capacity(rate);
    decision.remaining = reply[at + 1] as number;
    decision.retryAfterUs = reply[at + 2] as number;
    decision.resetAfterUs = reply[at + 3] as number;
    if (!decision.allowed) allowed = false;
    mergeLimit(merged ?? mergedOfAll, policy, name, decision);
  }
  return $multi(allowed, undefined);
}

/** What Redis did not confirm. */
export interface Uncharged<Deferred extends Took> {
  /** Certainly not charged. */
  readonly notCharged: readonly Deferred[];
  /** Perhaps charged: to be charged a second time they must not be. */
  readonly unknown: readonly Deferred[];
  readonly failure: string;
}

/** Charges what these took, in one call, or one a slot with Redis Cluster. @returns those that were not; undefined: all were */
export function chargeDeferredInRedis<Deferred extends Took>(
  settings: RedisSettings,
  charges: readonly Deferred[],
): Uncharged<Deferred> | undefined {
  const notCharged: Deferred[] = [];
  const unknown: Deferred[] = [];
  let lastFailure: string | undefined;
  for (const { members } of groupsOf(settings, charges)) {
    const keys: string[] = [];
    const args: string[] = [];
    for (const { policy, keyValues, units } of members) push(keys, args, policy, keyValues, units);
    const count = (keys.length / 2) * numbersPerCounter;
    const [, failure, mayHaveRun] = callForNumbers(settings, deferredScript, keys.length, [...keys, ...args], count);
    if (failure === undefined) continue;
    lastFailure = failure;
    for (const charge of members) (mayHaveRun ? unknown : notCharged).push(charge);
  }
  return lastFailure === undefined ? undefined : { notCharged, unknown, failure: lastFailure };
}

function push(keys: string[], args: string[], policy: CompiledPolicy, keyValues: string, units: number): void {
  for (const limit of policy.limits) {
    const key = keyOf(policy, limit, keyValues);
    keys.push(key);
    keys.push(`${key}:debt`);
    args.push(limit.rate.algorithm);
    pushNumbers(args, limit, units);
  }
}
