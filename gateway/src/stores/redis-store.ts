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
  /** Whether its own limits allow, whatever those of others say: told by every decision in Redis. */
  allowed?: boolean;
}

/** What one policy charged for a request, and where. */
export interface Charge extends Check {
  /** Those of the policy, a node's share of them, or some of them. */
  readonly limits: readonly CompiledLimit[];
  /** Undefined: charged on this node. */
  readonly redis: RedisSettings | undefined;
  /** The last message of the lease from which it was spent. Absent: from none. */
  readonly leaseSeq?: number;
}

/** What one script can be told of. */
export interface Group<Member> {
  readonly id: number;
  readonly members: Member[];
}

/** Each is a key of Redis and at most six arguments: with more, Lua could not pass them all in one call. */
export const mostCountersAtOnce = 1000;

const keyPrefix = "sluice:";
const numbersPerCounter = 6;

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const { charge, refund, renew } = scripts as Record<"charge" | "refund" | "renew", Script>;
export const settleScript = scripts["settle"] as Script;
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
 * @param checks have at most `mostCountersAtOnce` limits together
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
  groups: readonly Group<Check>[],
  verdict: Verdict,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const replies: (readonly number[])[] = [];
  let allowed = true;
  for (const { members: checks } of groups) {
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
    readReply(replies[i] as readonly number[], (groups[i] as Group<Check>).members, verdict, !allowed);
  }
  return $multi(allowed, undefined);
}

/** The last first: each counter is then found as its charge left it. */
function giveBack(
  settings: RedisSettings,
  groups: readonly Group<Check>[],
  replies: readonly (readonly number[])[],
): void {
  for (let i = replies.length - 1; i >= 0; i--) {
    const reply = replies[i] as readonly number[];
    if (reply[0] !== 1) continue;
    const refunds: Refund[] = [];
    let at = numbersPerCounter;
    for (const { policy, keyValues } of (groups[i] as Group<Check>).members) {
      const { limits } = policy;
      const receipt: number[] = [];
      for (let j = 0; j < limits.length; j++) {
        receipt.push(reply[at] as number);
        at += numbersPerCounter;
      }
      refunds.push({ policy, limits, keyValues, receipt });
    }
    const failure = refundGroup(settings, refunds);
    if (failure !== undefined) warnSparingly("units of a refused request stay charged", failure);
  }
}

/** In the order of their first members. A policy's limits for one key value are always in one group: so their keys are made. */
export function groupsOf<Member extends Pick<Check, "policy" | "keyValues">>(
  settings: RedisSettings,
  members: readonly Member[],
): Group<Member>[] {
  const groups: Group<Member>[] = [];
  for (const member of members) {
    const { policy, keyValues } = member;
    const id = groupOf(settings, keyOf(policy, policy.limits[0] as CompiledLimit, keyValues));
    const group = groups.find((one) => one.id === id);
    if (group === undefined) groups.push({ id, members: [member] });
    else group.members.push(member);
  }
  return groups;
}

/** One limit, as most requests have: the script that was made for its algorithm. */
function decideOne(
  settings: RedisSettings,
  check: Check,
  verdictOfAll: Verdict,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const { policy, keyValues, receipt, verdict } = check;
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
  receipt[0] = reply[5] as number;
  check.allowed = decision.allowed;
  hear(verdict ?? verdictOfAll, policy, limit.name, decision);
  return $multi(decision.allowed, undefined);
}

/**
 * Gives back what these charges took, in one call, or one a slot with Redis Cluster.
 *
 * @param charges of at most `mostCountersAtOnce` limits
 * @returns what failed last
 */
export function refundInRedis(settings: RedisSettings, charges: readonly Charge[]): string | undefined {
  let failure: string | undefined;
  for (const group of groupsOf(settings, charges)) failure = refundGroup(settings, group.members) ?? failure;
  return failure;
}

type Refund = Pick<Charge, "policy" | "limits" | "keyValues" | "receipt">;

function refundGroup(settings: RedisSettings, refunds: readonly Refund[]): string | undefined {
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, limits, keyValues, receipt } of refunds) {
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as CompiledLimit;
      keys.push(keyOf(policy, limit, keyValues));
      args.push(limit.rate.algorithm);
      pushNumbers(args, limit, policy.policy.cost);
      args.push(whole(receipt[i] as number));
    }
  }
  return callScript<number>(settings, refund, keys.length, [...keys, ...args])[1];
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

export function keyOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): string {
  return keyPrefix + policy.counterPrefix + keyValues + limit.counterSuffix;
}

/** What every script is told of a counter: quota, window, burst or precision, cost. */
export function pushNumbers(args: string[], limit: CompiledLimit, cost: number): void {
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
export function readReply(
  reply: readonly number[],
  checks: readonly Check[],
  verdict: Verdict,
  givenBack: boolean,
): boolean {
  const regained = givenBack && reply[0] === 1;
  const decision = emptyDecision();
  let at = 1;
  for (const check of checks) {
    const { policy, receipt } = check;
    check.allowed = true;
    for (let i = 0; i < policy.limits.length; i++) {
      const limit = policy.limits[i] as CompiledLimit;
      decision.allowed = reply[at] === 1;
      decision.limit = capacity(limit.rate);
      decision.remaining = reply[at + 1] as number;
      if (regained) decision.remaining = math.min(decision.remaining + policy.policy.cost, decision.limit);
      decision.retryAfterUs = reply[at + 2] as number;
      decision.resetAfterUs = reply[at + 3] as number;
      decision.delayUs = reply[at + 4] as number;
      hear(check.verdict ?? verdict, policy, limit.name, decision);
      if (!decision.allowed) check.allowed = false;
      // In its place, not behind what was there: a request that waits for its units asks more than once.
      receipt[i] = reply[at + 5] as number;
      at += numbersPerCounter;
    }
  }
  return reply[0] === 1;
}
