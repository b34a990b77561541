// Gives back what a policy charged, where it was charged.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings } from "../settings.ts";
import { refundOnNode } from "./node-store.ts";
import { refundInRedis } from "./redis-store.ts";

/** @param redis undefined: it was charged on this node @param lost what it means, for the log, where Redis cannot be told */
export function giveBack(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  receipt: readonly number[],
  redis: RedisSettings | undefined,
  lost: string,
): void {
  if (redis === undefined) {
    refundOnNode(policy, limits, keyValues, receipt);
    return;
  }
  const failure = refundInRedis(redis, policy, limits, keyValues, receipt);
  if (failure !== undefined) warnSparingly(lost, failure);
}
