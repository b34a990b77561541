// Slots of concurrency in Redis, held for another life: each counter by a script call of its own, so that an error is one
// counter's alone, and many calls in one round trip.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import type { RedisServer } from "../redis/connection.ts";
import { type Call, groupOf, type Script, serverFor } from "../redis/script-call.ts";
import { type Charge, firstKey } from "./redis-store.ts";
import { keyOf, whole } from "./script-arguments.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const renew = scripts["renew"] as Script;

/** @param heldAtUs the moment that the slots were taken or last renewed in */
export function renewalOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string, heldAtUs: number): Call {
  const { quota, windowUs } = limit.rate;
  const args = [whole(quota), whole(windowUs), whole(policy.policy.cost), whole(heldAtUs)];
  const keysAndArgs = [keyOf(policy, limit, keyValues), ...args];
  return { script: renew, keyCount: 1, keysAndArgs, reply: undefined, failure: undefined };
}

/**
 * Which of these can share a round trip: with Redis Cluster, those whose slots one node serves. A slot that has moved
 * meanwhile is followed by those calls alone that it concerns. Yields.
 *
 * @param charges in Redis
 */
export function byServer<Member extends Charge>(charges: readonly Member[]): Member[][] {
  const servers: (RedisServer | "unknown")[] = [];
  const members: Member[][] = [];
  for (const charge of charges) {
    const { redis } = charge;
    if (redis === undefined) continue;
    const server = serverFor(redis, groupOf(redis, firstKey(charge)))[0] ?? "unknown";
    const at = servers.indexOf(server);
    if (at < 0) {
      servers.push(server);
      members.push([charge]);
    } else {
      (members[at] as Member[]).push(charge);
    }
  }
  return members;
}
