// Slots of concurrency that requests of this worker hold: renewed while the request lives, given back when it has ended.
//
// A request is known by its address in nginx, which stays the same through internal redirects, where ngx.ctx does not; its
// log phase is always its last. There nothing may yield, so what needs a lock or Redis is given back by one timer for all.
// A worker that is killed renews nothing: its slots come back after their time to live.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { requestAddress } from "../runtime/lua-modules.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings } from "../settings.ts";
import { giveBack } from "./give-back.ts";
import { mustAgree, renewOnNode } from "./node-store.ts";
import { renewInRedis } from "./redis-store.ts";

/** Slots of one policy that a request was given. */
interface Hold {
  readonly policy: CompiledPolicy;
  /** Those of its limits that are concurrency. */
  readonly limits: readonly CompiledLimit[];
  readonly keyValues: string;
  /** For each limit, the moment that its slots were taken or last renewed in. */
  readonly heldAtUs: number[];
  /** Undefined: held on this node. */
  readonly redis: RedisSettings | undefined;
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
let ended: Hold[] = [];

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
    heldAtUs,
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
    if (hold.renewing) continue;
    if (hold.redis === undefined && !mustAgree()) giveBackHold(hold);
    else releaseLater(hold);
  }
}

function releaseLater(hold: Hold): void {
  ended.push(hold);
  if (ended.length > 1) return;
  const [started, failure] = ngx.timer.at(0, () => {
    const batch = ended;
    ended = [];
    for (const each of batch) giveBackHold(each);
  });
  if (started === undefined) {
    ended = [];
    warnSparingly("slots come back only after their time to live", failure);
  }
}

function giveBackHold({ policy, limits, keyValues, heldAtUs, redis }: Hold): void {
  giveBack(policy, limits, keyValues, heldAtUs, redis, "slots come back only after their time to live");
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
    for (let i = 0; i < hold.limits.length; i++) renew(hold, i);
    hold.renewing = false;
    if (hold.ended) giveBackHold(hold);
  }
}

function renew(hold: Hold, index: number): void {
  const { policy, keyValues, heldAtUs, redis } = hold;
  const limit = hold.limits[index] as CompiledLimit;
  const at = heldAtUs[index] as number;
  let renewedAtUs: number | undefined;
  let failure: string | undefined;
  if (redis === undefined) renewedAtUs = renewOnNode(policy, limit, keyValues, at);
  else [renewedAtUs, failure] = renewInRedis(redis, policy, limit, keyValues, at);
  if (failure !== undefined) warnSparingly("slots were not renewed", failure);
  // Slots that were lost are asked for again next time.
  if (renewedAtUs !== undefined) heldAtUs[index] = renewedAtUs;
}
