// Handles the checks of requests that did not wait for the reply.

import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { isSentToThisRedis } from "../../redis/epoch.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Owed, Refund } from "../store.ts";
import { noteOwed } from "./debts.ts";
import type { PendingCheck } from "./pending-check.ts";
import { endOfCall, refundAll, refundGroup, refundsOf } from "./refunds.ts";
import { allAllow } from "./replies.ts";

/** By this time a released request has been decided, in nearly all cases. */
const decidedAfterMs = 50;

/**
 * Corrects the charges of requests that did not wait for the reply. If the request passed, its charge stays, and becomes a debt
 * if Redis has not made it; every other charge is refunded. This goes in reverse order, so that each refund finds the counter as
 * its charge left it.
 */
export function reconcile(settings: RedisSettings, pendingChecks: readonly PendingCheck[]): void {
  sleepMs(decidedAfterMs);
  const refunds: Refund[] = [];
  for (let i = pendingChecks.length - 1; i >= 0; i--) {
    const pending = pendingChecks[i] as PendingCheck;
    pending.reconciled = true;
    const { checks, numbers, at, owed = [], lost } = pending;
    if (numbers === undefined || !allAllow(numbers, at, checks)) {
      if (numbers !== undefined || lost === false) for (const each of owed) noteOwed(each);
      continue;
    }
    if (!isSentToThisRedis(pending.submittedAtSeconds)) continue;
    for (const one of refundsOf(checks, numbers, at)) {
      const back = wentOn(owed, one) ? slotsOf(one) : one;
      if (back.limits.length > 0) refunds.push(back);
    }
  }
  if (settings.deployment.kind === "cluster") {
    refundAll(refunds);
    return;
  }
  let from = 0;
  while (from < refunds.length) {
    const end = endOfCall(refunds, from);
    const failure = refundGroup(settings, refunds.slice(from, end));
    if (failure !== undefined)
      warnSparingly("a refund failed: units of requests that did not wait for Redis stay charged", failure);
    from = end;
  }
}

/**
 * Returns the refund of slots only: a request that passes without Redis holds no slots there, because nothing would renew or
 * release them.
 */
function slotsOf({ policy, limits, keyValues, chargedAt }: Refund): Refund {
  const slots: CompiledLimit[] = [];
  const takenAtUs: number[] = [];
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as CompiledLimit;
    if (limit.rate.algorithm !== "concurrency") continue;
    slots.push(limit);
    takenAtUs.push(chargedAt[i] as number);
  }
  return { policy, limits: slots, keyValues, chargedAt: takenAtUs };
}

function wentOn(owed: readonly Owed[], { policy, keyValues }: Refund): boolean {
  for (const each of owed) {
    if (each.policy === policy && each.keyValues === keyValues) return true;
  }
  return false;
}
