// Refunds what a request was charged that is refused after all, or whose client is gone.

import type { StoreName } from "../../../limiter/src/compiled/compile.ts";
import { runSoon } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import { spendForGood } from "../stores/lease/spend.ts";
import { oweForGood } from "../stores/redis/debts.ts";
import { type Charge, stayCharged } from "../stores/store.ts";
import { stores } from "./stores.ts";

/** Refunds all of these. May yield. */
export function refundAll(charges: readonly Charge[]): void {
  const byStore: Partial<Record<StoreName | "share", Charge[]>> = {};
  for (const charge of charges) {
    // Nothing is charged yet of its response.
    if (charge.policy.policy.deferred) continue;
    const others = byStore[charge.store];
    if (others === undefined) byStore[charge.store] = [charge];
    else others.push(charge);
  }
  for (const name of ["leased", "share", "node", "exact"] as const) {
    const own = byStore[name];
    if (own !== undefined) stores[name].refund(own);
  }
}

/** How long an answer waits for refunds at most. */
const longestRefundSeconds = 5;

/** Refunds all of these, and waits for it. If the current request's client goes away meanwhile, they are refunded all the same. */
export function refundSurely(charges: readonly Charge[]): void {
  if (charges.length === 0) return;
  if (stores.node.chargesAtOnce() && charges.every(({ store }) => store === "node")) {
    refundAll(charges);
    return;
  }
  const done = semaphoreLibrary.new(0);
  const failure = runSoon(refunding(charges, done));
  if (failure === undefined) done.wait(longestRefundSeconds);
  else refundAll(charges);
}

/** Made in a function of its own, whose variables outlive it: those of a function that is running end with its request. */
function refunding(charges: readonly Charge[], done: Semaphore): (this: void) => void {
  return () => {
    const [refunded, defect] = pcall(refundAll, charges);
    if (!refunded) noteDefect("timers", stayCharged, defect);
    done.post(1);
  };
}

/** The request goes on: nothing of these charges is refunded any more, and Redis is owed what it has not charged. */
export function chargeForGood(charges: readonly Charge[]): void {
  for (const charge of charges) {
    if (charge.spent !== undefined) spendForGood(charge, charge.spent);
    if (charge.owed !== undefined) oweForGood(charge.owed);
  }
}

/** Refunds it where nothing may yield, as in the log phase. */
export function refundLater(charge: Charge): void {
  if (!charge.policy.policy.deferred) stores[charge.store].refundLater(charge);
}
