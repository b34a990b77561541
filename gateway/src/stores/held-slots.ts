// Slots of concurrency that requests of this worker hold: renewed while the request lives, given back when it has ended.
//
// A request is known by its address in nginx, which stays the same through internal redirects, where ngx.ctx does not; its
// log phase is always its last. There nothing may yield, so what needs a lock or Redis is given back by one timer for all.
// A worker that is killed renews nothing: its slots come back after their time to live.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { requestAddress } from "../runtime/lua-modules.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings } from "../settings.ts";
import { giveBackLate } from "./charges.ts";
import { renewOnNode } from "./node-store.ts";
import { type Charge, renewInRedis } from "./redis-store.ts";

/**
 * Slots of one policy that a request was given: of its limits, those that are concurrency; `receipt` has for each the moment
 * that its slots were taken or last renewed in.
 */
interface Hold extends Charge {
  readonly renewEverySeconds: number;
  renewAtSeconds: number;
  /** While it is being renewed, where it is held is not known: whoever renews it gives it back if the request ends. */
  renewing: boolean;
  ended: boolean;
}

const renewalsPerLife = 3;
/** How often holds are looked at: a shorter life than some of these is not renewed in time. */
const lookEverySeconds = 0.1;

/** By request. */
const holds: Record<string, Hold[] | undefined> = {};
let holding = 0;
let looking = false;

/** For each worker's start. */
export function keepSlots(): void {
  ngx.timer.every(lookEverySeconds, (premature) => {
    // nginx takes the timer from a worker that is to end, but lets its requests finish: they hold on to their slots.
    if (premature) ngx.timer.at(0, lingerWithRequests);
    else if (holding > 0) renewDue();
  });
}

function lingerWithRequests(): void {
  while (holding > 0) {
    renewDue();
    ngx.sleep(lookEverySeconds);
  }
}

/**
 * Notes the slots that a charge of this policy took, if it has limits of that kind.
 *
 * @param receipt what each limit's charge told
 */
export function holdSlots(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  receipt: readonly number[],
  redis: RedisSettings | undefined,
): void {
  const held: CompiledLimit[] = [];
  const heldAtUs: number[] = [];
  let shortestSeconds = math.huge;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as CompiledLimit;
    if (limit.rate.algorithm !== "concurrency") continue;
    held.push(limit);
    heldAtUs.push(receipt[i] as number);
    shortestSeconds = math.min(shortestSeconds, limit.rate.windowUs / 1_000_000);
  }
  if (held.length === 0) return;
  const renewEverySeconds = shortestSeconds / renewalsPerLife;
  const hold: Hold = {
    policy,
    limits: held,
    keyValues,
    receipt: heldAtUs,
    redis,
    renewEverySeconds,
    renewAtSeconds: ngx.now() + renewEverySeconds,
    renewing: false,
    ended: false,
  };
  const request = requestAddress();
  const others = holds[request];
  if (others === undefined) holds[request] = [hold];
  else others.push(hold);
  holding += 1;
}

/** In the log phase: gives back what the request that has ended held. */
export function releaseSlots(): void {
  if (holding === 0) return;
  const request = requestAddress();
  const own = holds[request];
  if (own === undefined) return;
  holds[request] = undefined;
  holding -= own.length;
  for (const hold of own) {
    hold.ended = true;
    if (!hold.renewing) giveBackLate(hold);
  }
}

function renewDue(): void {
  // Renewing waits for a lock or for Redis, and the timer comes again meanwhile.
  if (looking) return;
  looking = true;
  const [renewed, failure] = pcall(renewAllDue);
  looking = false;
  if (!renewed) warnSparingly("slots were not renewed", `${failure}`);
}

function renewAllDue(): void {
  const now = ngx.now();
  const due: Hold[] = [];
  for (const request in holds) {
    for (const hold of holds[request] as Hold[]) {
      if (now >= hold.renewAtSeconds) due.push(hold);
    }
  }
  for (const hold of due) {
    // Ended while another was renewed.
    if (hold.ended) continue;
    hold.renewAtSeconds = ngx.now() + hold.renewEverySeconds;
    hold.renewing = true;
    // What goes wrong with one is that one's alone: the others are renewed, and this one can be given back.
    const [renewed, failure] = pcall(renewHold, hold);
    hold.renewing = false;
    if (!renewed) warnSparingly("slots were not renewed", `${failure}`);
    if (hold.ended) giveBackLate(hold);
  }
}

function renewHold(hold: Hold): void {
  for (let i = 0; i < hold.limits.length; i++) renew(hold, i);
}

function renew(hold: Hold, index: number): void {
  const { policy, keyValues, receipt, redis } = hold;
  const limit = hold.limits[index] as CompiledLimit;
  const at = receipt[index] as number;
  let renewedAtUs: number | undefined;
  let failure: string | undefined;
  if (redis === undefined) renewedAtUs = renewOnNode(policy, limit, keyValues, at);
  else [renewedAtUs, failure] = renewInRedis(redis, policy, limit, keyValues, at);
  if (failure !== undefined) warnSparingly("slots were not renewed", failure);
  // Slots that were lost are asked for again next time.
  if (renewedAtUs !== undefined) receipt[index] = renewedAtUs;
}
