// Counts in Redis for the whole fleet: all cluster policies of a request are charged by one script call, all or none.

import { emptyDecision } from "../../../limiter/src/decision.ts";
import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { hear, type Verdict } from "../../../limiter/src/verdict.ts";
import type { RedisSettings } from "../settings.ts";
import { connect, discard, keep } from "./redis-connection.ts";

/** One policy that a request is held to, and the key values that pick its counters. */
export interface Check {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
}

interface Script {
  readonly sha1: string;
  readonly source: string;
}

const keyPrefix = "sluice:";
const numbersPerCounter = 4;

const scripts = require("sluice_redis_scripts") as { readonly charge: Script };

/**
 * Decides these checks in Redis: all are charged or none.
 *
 * @param verdict hears every limit when Redis decided
 * @returns whether the request is allowed; or undefined and what failed, when Redis did not decide
 */
export function decideInRedis(
  settings: RedisSettings,
  checks: readonly Check[],
  verdict: Verdict,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const keys: string[] = [];
  const args: (string | number)[] = [];
  for (const { policy, keyValues } of checks) {
    for (const { counterSuffix, rate } of policy.limits) {
      keys.push(keyPrefix + policy.counterPrefix + keyValues + counterSuffix);
      args.push(rate.algorithm, string.format("%.0f", rate.quota), string.format("%.0f", rate.windowUs));
      args.push(string.format("%.0f", rate.algorithm === "token-bucket" ? rate.burst : rate.quota));
      args.push(string.format("%.0f", policy.policy.cost));
    }
  }
  const [reply, failure] = run(settings, scripts.charge, keys, args);
  if (reply === undefined) return $multi(undefined, failure);
  return $multi(readReply(reply, checks, verdict), undefined);
}

function readReply(reply: readonly number[], checks: readonly Check[], verdict: Verdict): boolean {
  const decision = emptyDecision();
  let at = 1;
  for (const { policy } of checks) {
    for (const limit of policy.limits) {
      decision.allowed = reply[at] === 1;
      decision.limit = limit.rate.algorithm === "token-bucket" ? limit.rate.burst : limit.rate.quota;
      decision.remaining = reply[at + 1] as number;
      decision.retryAfterUs = reply[at + 2] as number;
      decision.resetAfterUs = reply[at + 3] as number;
      hear(verdict, policy, limit.name, decision);
      at += numbersPerCounter;
    }
  }
  return reply[0] === 1;
}

/** EVALSHA, and EVAL where Redis does not know the script: it was not run then, so nothing is charged twice. */
function run(
  settings: RedisSettings,
  script: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): LuaMultiReturn<[readonly number[] | undefined, string | undefined]> {
  const [redis, connectFailure] = connect(settings);
  if (redis === undefined) return $multi(undefined, connectFailure);
  let [reply, failure] = redis.evalsha(script.sha1, keys.length, ...keys, ...args);
  if (reply === false && failure !== undefined && failure.startsWith("NOSCRIPT")) {
    [reply, failure] = redis.eval(script.source, keys.length, ...keys, ...args);
  }
  // undefined: the connection failed, and what Redis may still send on it must reach nobody else.
  // false: Redis answered with an error, and the connection is good.
  if (reply === undefined) {
    discard(redis);
    return $multi(undefined, failure);
  }
  keep(redis);
  if (reply === false) return $multi(undefined, failure);
  return $multi(reply as readonly number[], undefined);
}
