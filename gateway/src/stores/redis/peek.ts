// Looks at counters in Redis, and changes nothing.

import { emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { keyOf, ledgerKeyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { newPatience } from "../../redis/patience.ts";
import { callForNumbers } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import type { Check } from "../store.ts";
import { redisToAsk } from "./overload.ts";
import { pushNumbers } from "./script-arguments.ts";
import { waitLimitMs } from "./submit.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const peekScript = scripts["peek"] as Script;
const numbersPerCounter = 5;

/**
 * Returns whether Redis would allow a charge now; undefined if it does not say. Yields.
 *
 * @param unspent units that this gateway has on lease: Redis counts them as charged
 * @param merged receives every limit if Redis said so, with the units that are left now
 */
export function peekInRedis(check: Check, unspent: number, merged: MergedDecision): boolean | undefined {
  const redis = redisToAsk(check);
  if (redis === undefined) return undefined;
  const { policy, keyValues } = check;
  const { limits } = policy;
  const keys = limits.map((limit) => keyOf(policy, limit, keyValues));
  if (policy.policy.store === "leased") keys.push(ledgerKeyOf(policy, keyValues));
  const args: string[] = [];
  for (const limit of limits) {
    args.push(limit.rate.algorithm);
    pushNumbers(args, limit, policy.policy.cost);
  }
  const patience = newPatience(redis.deadlineMs, waitLimitMs(redis, policy, check.asksRedis === true));
  const count = limits.length * numbersPerCounter;
  const [reply, failure] = callForNumbers(redis, peekScript, keys.length, keys.concat(args), count, patience);
  if (reply === undefined) {
    warnSparingly("Redis did not say what is left", failure);
    return undefined;
  }
  const decision = emptyDecision();
  let allowed = true;
  for (let i = 0; i < limits.length; i++) {
    const { rate, name } = limits[i] as CompiledLimit;
    const at = i * numbersPerCounter;
    decision.allowed = reply[at] === 1;
    decision.limit = capacity(rate);
    decision.remaining = math.min((reply[at + 1] as number) + unspent, decision.limit);
    decision.retryAfterUs = reply[at + 2] as number;
    decision.resetAfterUs = reply[at + 3] as number;
    decision.delayUs = reply[at + 4] as number;
    if (!decision.allowed) allowed = false;
    mergeLimit(merged, policy, name, decision);
  }
  return allowed;
}
