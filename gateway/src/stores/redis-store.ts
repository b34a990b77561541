// Counts in Redis for the whole fleet: all cluster policies of a request are charged by one script call, all or none.

import { capacity, sizeOf } from "../../../limiter/src/algorithms/rate.ts";
import { emptyDecision } from "../../../limiter/src/decision.ts";
import type { CompiledLimit, CompiledPolicy, NumberTexts } from "../../../limiter/src/policy/compile.ts";
import type { Algorithm } from "../../../limiter/src/policy/policy.ts";
import { hear, type Verdict } from "../../../limiter/src/verdict.ts";
import { countRedisFailure, observeRedisCall } from "../metrics/redis-calls.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import { connect, discard, keep } from "./redis-connection.ts";

/** One policy that a request is held to, and the key values that pick its counters. */
export interface Check {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Filled by a charge: for each limit the moment that its counter has afterwards, which a refund asks for. */
  readonly receipt: number[];
  /** Hears the limits of this check; absent: the verdict that hears those of all. */
  readonly verdict?: Verdict;
}

interface Script {
  readonly sha1: string;
  readonly source: string;
}

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
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, keyValues } of checks) {
    for (const limit of policy.limits) {
      keys.push(keyOf(policy, limit, keyValues));
      args.push(limit.rate.algorithm);
      pushNumbers(args, limit, policy.policy.cost);
    }
  }
  const [reply, failure] = run<readonly number[]>(settings, charge, keys.length, [...keys, ...args]);
  if (reply === undefined) return $multi(undefined, failure);
  return $multi(readReply(reply, checks, verdict), undefined);
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
  const [reply, failure] = run<readonly number[]>(settings, chargeOne[limit.rate.algorithm], 1, keysAndArgs);
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
  return run<number>(settings, refund, keys.length, [...keys, ...args])[1];
}

/** Gives back, in one call, what the charges of these checks took. @returns what failed */
export function refundChecksInRedis(settings: RedisSettings, checks: readonly Check[]): string | undefined {
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, keyValues, receipt } of checks) {
    pushRefund(keys, args, policy, policy.limits, keyValues, receipt);
  }
  return run<number>(settings, refund, keys.length, [...keys, ...args])[1];
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
  const [renewedAtUs, failure] = run<number>(settings, renew, 1, [keyOf(policy, limit, keyValues), ...args]);
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

function readReply(reply: readonly number[], checks: readonly Check[], verdict: Verdict): boolean {
  const decision = emptyDecision();
  let at = 1;
  for (const check of checks) {
    const { policy } = check;
    for (const limit of policy.limits) {
      decision.allowed = reply[at] === 1;
      decision.limit = capacity(limit.rate);
      decision.remaining = reply[at + 1] as number;
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

/** EVALSHA, and EVAL where Redis does not know the script: it was not run then, so nothing is charged twice. */
export function run<Reply>(
  settings: RedisSettings,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
): LuaMultiReturn<[Reply | undefined, string | undefined]> {
  const startedAt = stopwatchSeconds();
  const [redis, connectFailure] = connect(settings);
  if (redis === undefined) {
    countRedisFailure("connect", connectFailure);
    return $multi(undefined, connectFailure);
  }
  let [reply, failure] = redis.evalsha(script.sha1, keyCount, ...keysAndArgs);
  if (reply === false && failure !== undefined && failure.startsWith("NOSCRIPT")) {
    [reply, failure] = redis.eval(script.source, keyCount, ...keysAndArgs);
  }
  observeRedisCall(stopwatchSeconds() - startedAt);
  // undefined: the connection failed, and what Redis may still send on it must reach nobody else.
  // false: Redis answered with an error, and the connection is good.
  if (reply === undefined) {
    countRedisFailure("call", failure);
    discard(redis);
    return $multi(undefined, failure);
  }
  keep(redis);
  if (reply === false) {
    countRedisFailure("reply", failure);
    return $multi(undefined, failure);
  }
  return $multi(reply as Reply, undefined);
}
