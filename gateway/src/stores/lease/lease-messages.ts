// Script calls for a leased policy: the messages of its leases, and exact decisions. Both use its ledger.

import type { CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { leaseParameters } from "../../../../limiter/src/lease/holder.ts";
import type { LeaseAnswer } from "../../../../limiter/src/lease/ledger.ts";
import { keyOf, ledgerKeyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { callScript } from "../../redis/script-call.ts";
import { areNumbers, oddReply } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import type { RedisSettings } from "../../settings.ts";
import { hasReply, newPendingCheck, type PendingCheck } from "../redis/pending-check.ts";
import { readReply } from "../redis/replies.ts";
import { pushNumbers } from "../redis/script-arguments.ts";
import { submitPending } from "../redis/submit.ts";
import type { Check } from "../store.ts";
import type { LeaseRecord } from "./lease-cells.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const leaseScript = scripts["lease"] as Script;
const chargeLeased = scripts["charge_leased"] as Script;

export interface LeaseReply extends LeaseAnswer {
  /** Of the limit with the fewest units left: its index, its whole units, and µs until it is as if never used. */
  readonly mostRestrictive: number;
  readonly remaining: number;
  readonly resetAfterUs: number;
}

const numbersBefore = 7;
const numbersPerLimit = 2;

/**
 * Sends the pending message of the record. Yields.
 *
 * @returns the reply; "overtaken" if a later message has used the holder's name; undefined and the error message
 */
export function sendLeaseMessage(
  settings: RedisSettings,
  policy: CompiledPolicy,
  keyValues: string,
  { name, seq, acknowledged, kept, back, want }: LeaseRecord,
): LuaMultiReturn<[LeaseReply | "overtaken" | undefined, string | undefined]> {
  const keysAndArgs = [ledgerKeyOf(policy, keyValues)];
  for (const limit of policy.limits) keysAndArgs.push(keyOf(policy, limit, keyValues));
  const keyCount = keysAndArgs.length;
  keysAndArgs.push(name);
  for (const number of [seq, acknowledged, kept, back, want, leaseParameters.horizonUs, leaseParameters.lifetimeUs]) {
    keysAndArgs.push(string.format("%.0f", number));
  }
  for (const limit of policy.limits) {
    keysAndArgs.push(limit.rate.algorithm);
    pushNumbers(keysAndArgs, limit, 1);
    keysAndArgs.pop();
  }
  const [reply, failure] = callScript(settings, leaseScript, keyCount, keysAndArgs);
  if (reply === undefined) return $multi(undefined, failure);
  const limits = policy.limits.length;
  if (areNumbers(reply, numbersBefore + limits * numbersPerLimit)) return $multi(answerFrom(reply, limits), undefined);
  // Then the reply has no numbers of the counters.
  if (areNumbers(reply, numbersBefore) && reply[0] === 0) return $multi("overtaken", undefined);
  return $multi(undefined, oddReply);
}

function answerFrom(reply: readonly number[], limits: number): LeaseReply {
  let mostRestrictive = 0;
  for (let i = 1; i < limits; i++) {
    const left = reply[numbersBefore + i * numbersPerLimit] as number;
    if (left < (reply[numbersBefore + mostRestrictive * numbersPerLimit] as number)) mostRestrictive = i;
  }
  return {
    seq: reply[1] as number,
    grant: reply[2] as number,
    honoured: reply[3] as number,
    durationUs: reply[4] as number,
    retryAfterUs: reply[5] as number,
    elsewhere: reply[6] as number,
    mostRestrictive,
    remaining: reply[numbersBefore + mostRestrictive * numbersPerLimit] as number,
    resetAfterUs: reply[numbersBefore + mostRestrictive * numbersPerLimit + 1] as number,
  };
}

/**
 * Decides a check of a leased policy in Redis: with the script `charge`, a bucket would refill while its units are out on leases.
 * Yields.
 *
 * @param limitMs the longest that the request waits
 */
export function chargeExactly(
  settings: RedisSettings,
  check: Check,
  merged: MergedDecision,
  limitMs: number,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const { policy, keyValues } = check;
  const keysAndArgs: string[] = [];
  for (const limit of policy.limits) keysAndArgs.push(keyOf(policy, limit, keyValues));
  const ledger = ledgerKeyOf(policy, keyValues);
  for (let i = 0; i < policy.limits.length; i++) keysAndArgs.push(ledger);
  const keyCount = keysAndArgs.length;
  for (const limit of policy.limits) {
    keysAndArgs.push(limit.rate.algorithm);
    pushNumbers(keysAndArgs, limit, policy.policy.cost);
  }
  const counters = policy.limits.length;
  const call = { script: chargeLeased, keyCount, keysAndArgs, counters, reply: undefined, failure: undefined };
  const pending: PendingCheck = newPendingCheck([check], undefined, call);
  pending.mustKeep = check.isOneOfMany === true;
  submitPending(settings, pending, keysAndArgs[0] as string, limitMs);
  if (!hasReply(pending)) {
    check.unanswered = pending;
    return $multi(undefined, pending.failure);
  }
  return $multi(readReply(pending, [check], merged, false), undefined);
}
