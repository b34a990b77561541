// Counts in Redis for the whole fleet: all cluster policies of a request are charged by one script call, all or none.
//
// Redis Cluster runs no script over several slots. There, a call for each slot charges one after the other, and what was
// charged is given back when a later one refuses: for about the time of the calls, others may be refused for it.

import { capacity, sizeOf } from "../../../limiter/src/algorithms/rate.ts";
import { emptyDecision } from "../../../limiter/src/decision.ts";
import type { CompiledLimit, CompiledPolicy, NumberTexts } from "../../../limiter/src/policy/compile.ts";
import type { Algorithm } from "../../../limiter/src/policy/policy.ts";
import { hear, type Verdict } from "../../../limiter/src/verdict.ts";
import { callScript, groupOf, type Script } from "../redis/script-call.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings } from "../settings.ts";

/** One policy that a request is held to, and the key values that pick its counters. */
export interface Check {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Filled by a charge: for each limit the moment that its counter has afterwards, which a refund asks for. */
  readonly receipt: number[];
  /** Hears the limits of this check; absent: the verdict that hears those of all. */
  readonly verdict?: Verdict;
}

/** Checks that one script can decide. */
interface Group {
  readonly id: number;
  readonly checks: Check[];
}

const keyPrefix = "sluice:";
const numbersPerCounter = 6;

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const { charge, refund, renew } = scripts as Record<"charge" | "refund" | "renew", Script>;
/** For a counter by itself. */
const chargeOne = {
  "token-bucket": scripts["charge_token_bucket"],
  "fixed-window": scripts["charge_fixed_window"],
  "sliding-window": scripts["charge_sliding_window"],
  "sliding-log": scripts["charge_sliding_log"],
  "leaky-bucket": scripts["charge_leaky_bucket"],
  concurrency: scripts["charge_concurrency"],
} as Readonly<Record<Algorithm, Script>>;

/**
 * Decides these checks in Redis: all are charged or none.
 *
 * @param verdict hears every limit when Redis decided, of checks that have none of their own
 * @returns whether the request is allowed; or undefined and what failed, when Redis did not decide
 */
export function decideInRedis(
  settings: RedisSettings,
  checks: readonly Check[],
  verdict: Verdict,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const first = checks[0] as Check;
  if (checks.length === 1 && first.policy.limits.length === 1) return decideOne(settings, first, verdict);
  if (checks.length > 1 && settings.deployment.kind === "cluster") {
    return decideGroups(settings, groupsOf(settings, checks), verdict);
  }
  const [reply, failure] = chargeChecks(settings, checks);
  if (reply === undefined) return $multi(undefined, failure);
  return $multi(readReply(reply, checks, verdict, false), undefined);
}

function chargeChecks(
  settings: RedisSettings,
  checks: readonly Check[],
): LuaMultiReturn<[readonly number[] | undefined, string | undefined, boolean]> {
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, keyValues } of checks) {
    for (const limit of policy.limits) {
      keys.push(keyOf(policy, limit, keyValues));
      args.push(limit.rate.algorithm);
      pushNumbers(args, limit, policy.policy.cost);
    }
  }
  return callScript<readonly number[]>(settings, charge, keys.length, [...keys, ...args]);
}

/** Nothing is heard before all have replied: where Redis fails half-way, the verdict is as it was. */
function decideGroups(
  settings: RedisSettings,
  groups: readonly Group[],
  verdict: Verdict,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const replies: (readonly number[])[] = [];
  let allowed = true;
  for (const { checks } of groups) {
    // After a refusal only those are asked whose caller is told of each check.
    if (!allowed && (checks[0] as Check).verdict === undefined) break;
    const [reply, failure] = chargeChecks(settings, checks);
    if (reply === undefined) {
      giveBack(settings, groups, replies);
      return $multi(undefined, failure);
    }
    replies.push(reply);
    if (reply[0] !== 1) allowed = false;
  }
  if (!allowed) giveBack(settings, groups, replies);
  for (let i = 0; i < replies.length; i++) {
    readReply(replies[i] as readonly number[], (groups[i] as Group).checks, verdict, !allowed);
  }
  return $multi(allowed, undefined);
}

/** The last first: each counter is then found as its charge left it. */
function giveBack(settings: RedisSettings, groups: readonly Group[], replies: readonly (readonly number[])[]): void {
  for (let i = replies.length - 1; i >= 0; i--) {
    const reply = replies[i] as readonly number[];
    if (reply[0] !== 1) continue;
    const keys: string[] = [];
    const args: string[] = [];
    let at = numbersPerCounter;
    for (const { policy, keyValues } of (groups[i] as Group).checks) {
      const moments: number[] = [];
      for (let j = 0; j < policy.limits.length; j++) {
        moments.push(reply[at] as number);
        at += numbersPerCounter;
      }
      pushRefund(keys, args, policy, policy.limits, keyValues, moments);
    }
    const [, failure] = callScript<number>(settings, refund, keys.length, [...keys, ...args]);
    if (failure !== undefined) warnSparingly("units of a refused request stay charged", failure);
  }
}

/** In the order of their first checks. A policy's limits for one key value are always in one group: so their keys are made. */
function groupsOf(settings: RedisSettings, checks: readonly Check[]): Group[] {
  const groups: Group[] = [];
  for (const check of checks) {
    const { policy, keyValues } = check;
    const id = groupOf(settings, keyOf(policy, policy.limits[0] as CompiledLimit, keyValues));
    const group = groups.find((one) => one.id === id);
    if (group === undefined) groups.push({ id, checks: [check] });
    else group.checks.push(check);
  }
  return groups;
}

/** One limit, as most requests have: the script that was made for its algorithm. */
function decideOne(
  settings: RedisSettings,
  { policy, keyValues, receipt, verdict }: Check,
  verdictOfAll: Verdict,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const limit = policy.limits[0] as CompiledLimit;
  const keysAndArgs = [keyOf(policy, limit, keyValues)];
  pushNumbers(keysAndArgs, limit, policy.policy.cost);
  const [reply, failure] = callScript<readonly number[]>(settings, chargeOne[limit.rate.algorithm], 1, keysAndArgs);
  if (reply === undefined) return $multi(undefined, failure);
  const decision = emptyDecision();
  decision.allowed = reply[0] === 1;
  decision.limit = capacity(limit.rate);
  decision.remaining = reply[1] as number;
  decision.retryAfterUs = reply[2] as number;
  decision.resetAfterUs = reply[3] as number;
  decision.delayUs = reply[4] as number;
  receipt.push(reply[5] as number);
  hear(verdict ?? verdictOfAll, policy, limit.name, decision);
  return $multi(decision.allowed, undefined);
}

/**
 * Gives back what a policy's charge took.
 *
 * @param moments for each limit what its charge told
 * @returns what failed
 */
export function refundInRedis(
  settings: RedisSettings,
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  moments: readonly number[],
): string | undefined {
  const keys: string[] = [];
  const args: string[] = [];
  pushRefund(keys, args, policy, limits, keyValues, moments);
  return callScript<number>(settings, refund, keys.length, [...keys, ...args])[1];
}

/** Gives back, in one call a group, what the charges of these checks took. @returns what failed last */
export function refundChecksInRedis(settings: RedisSettings, checks: readonly Check[]): string | undefined {
  let failure: string | undefined;
  for (const group of groupsOf(settings, checks)) failure = refundGroup(settings, group.checks) ?? failure;
  return failure;
}

function refundGroup(settings: RedisSettings, checks: readonly Check[]): string | undefined {
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, keyValues, receipt } of checks) {
    pushRefund(keys, args, policy, policy.limits, keyValues, receipt);
  }
  return callScript<number>(settings, refund, keys.length, [...keys, ...args])[1];
}

function pushRefund(
  keys: string[],
  args: string[],
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  moments: readonly number[],
): void {
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as CompiledLimit;
    keys.push(keyOf(policy, limit, keyValues));
    args.push(limit.rate.algorithm);
    pushNumbers(args, limit, policy.policy.cost);
    args.push(whole(moments[i] as number));
  }
}

/** @returns the moment in which the slots are held now, undefined when they are lost; or what failed */
export function renewInRedis(
  settings: RedisSettings,
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
  heldAtUs: number,
): LuaMultiReturn<[number | undefined, string | undefined]> {
  const { quota, windowUs } = limit.rate;
  const args = [whole(quota), whole(windowUs), whole(policy.policy.cost), whole(heldAtUs)];
  const [renewedAtUs, failure] = callScript<number>(settings, renew, 1, [keyOf(policy, limit, keyValues), ...args]);
  if (renewedAtUs === undefined) return $multi(undefined, failure);
  return $multi(renewedAtUs >= 0 ? renewedAtUs : undefined, undefined);
}

function keyOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): string {
  return keyPrefix + policy.counterPrefix + keyValues + limit.counterSuffix;
}

/** What every script is told of a counter: quota, window, burst or precision, cost. */
function pushNumbers(args: string[], limit: CompiledLimit, cost: number): void {
  const numbers = limit.numberTexts ?? textsOf(limit);
  args.push(numbers[0]);
  args.push(numbers[1]);
  args.push(numbers[2]);
  args.push(cost === 1 ? "1" : whole(cost));
}

function textsOf(limit: CompiledLimit): NumberTexts {
  const { rate } = limit;
  const texts: NumberTexts = [whole(rate.quota), whole(rate.windowUs), whole(sizeOf(rate))];
  limit.numberTexts = texts;
  return texts;
}

/** Every digit: Lua's own way to text keeps 14. */
function whole(number: number): string {
  return string.format("%.0f", number);
}

/** @param givenBack what it charged was given back: what is told to be left has it again */
function readReply(reply: readonly number[], checks: readonly Check[], verdict: Verdict, givenBack: boolean): boolean {
  const regained = givenBack && reply[0] === 1;
  const decision = emptyDecision();
  let at = 1;
  for (const check of checks) {
    const { policy } = check;
    for (const limit of policy.limits) {
      decision.allowed = reply[at] === 1;
      decision.limit = capacity(limit.rate);
      decision.remaining = reply[at + 1] as number;
      if (regained) decision.remaining = math.min(decision.remaining + policy.policy.cost, decision.limit);
      decision.retryAfterUs = reply[at + 2] as number;
      decision.resetAfterUs = reply[at + 3] as number;
      decision.delayUs = reply[at + 4] as number;
      hear(check.verdict ?? verdict, policy, limit.name, decision);
      check.receipt.push(reply[at + 5] as number);
      at += numbersPerCounter;
    }
  }
  return reply[0] === 1;
}
