// Calls to Redis for charges when no request waits: renewals of slots, and round trips that refunds and charges of responses share. Each
// renewal and refund has script calls of its own, so that an error affects only this one, and many calls share one round trip.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { isInThisRedis, redisInstance } from "../../redis/epoch.ts";
import { theRedis } from "../../redis/redis-settings.ts";
import { type Call, callScripts, groupOf, serverFor } from "../../redis/script-call.ts";
import { oddReply } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import type { Charge, NoteRenewal } from "../store.ts";
import { whole } from "./script-arguments.ts";
import { type Counted, firstKey } from "./slot-groups.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const renew = scripts["renew"] as Script;
/** Redis does nothing else while it executes these. */
const mostCountersTogether = 100;

/** @param heldAtUs the moment at which the slots were taken or last renewed */
function renewalOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string, heldAtUs: number): Call {
  const { quota, windowUs } = limit.rate;
  const args = [whole(quota), whole(windowUs), whole(policy.policy.cost), whole(heldAtUs)];
  const keysAndArgs = [keyOf(policy, limit, keyValues)].concat(args);
  return { script: renew, keyCount: 1, keysAndArgs, reply: undefined, failure: undefined };
}

interface RoundTrip<Member> {
  counters: number;
  readonly members: Member[];
}

const unknownServer = {};

/**
 * Groups charges by round trip: with Redis Cluster, those whose slots are served by the same node. If a slot has moved meanwhile,
 * only the calls that use it follow. Yields.
 */
export function roundTrips<Member extends Counted>(
  this: void,
  charges: readonly Member[],
  mostCounters: number = mostCountersTogether,
): Member[][] {
  const trips: Member[][] = [];
  /** By server: the trip that still has room. */
  const open = new LuaTable<object, RoundTrip<Member>>();
  for (const charge of charges) {
    const redis = theRedis();
    const [known] = serverFor(redis, groupOf(redis, firstKey(charge)));
    const server = known ?? unknownServer;
    let trip = open.get(server);
    if (trip === undefined || trip.counters >= mostCounters) {
      trip = { counters: 0, members: [] };
      open.set(server, trip);
      trips.push(trip.members);
    }
    trip.counters += charge.policy.limits.length;
    trip.members.push(charge);
  }
  return trips;
}

/** Another Redis holds these slots. In this one they are taken anew, like slots that were lost. */
function noteUnheld(charge: Charge): void {
  charge.redis = redisInstance();
  for (let i = 0; i < charge.chargedAt.length; i++) charge.chargedAt[i] = 0;
}

/** Renews the slots of these charges. Yields. @param charges of one round trip */
export function renewInRedis(this: void, charges: readonly Charge[], note: NoteRenewal): void {
  const calls: Call[] = [];
  for (const charge of charges) {
    const { policy, limits, keyValues, chargedAt } = charge;
    if (!isInThisRedis(charge)) noteUnheld(charge);
    for (let i = 0; i < limits.length; i++) {
      calls.push(renewalOf(policy, limits[i] as CompiledLimit, keyValues, chargedAt[i] as number));
    }
  }
  const [called, defect] = pcall(callScripts, theRedis(), calls);
  let next = 0;
  for (const charge of charges) {
    for (let i = 0; i < charge.limits.length; i++) {
      const { reply, failure } = calls[next] as Call;
      next += 1;
      if (type(reply) === "number") note(charge, i, (reply as number) >= 0 ? (reply as number) : undefined);
      else if (called) warnSparingly("slots were not renewed", failure ?? oddReply);
    }
  }
  if (!called) error(defect, 0);
}
