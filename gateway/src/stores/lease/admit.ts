// Decides a check of a leased policy: from the lease if that has the units. A request waits only if the units have run out.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeAll, newMergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { askAgainAt, refusedUntil, wayFor } from "../../../../limiter/src/lease/holder.ts";
import { redisInstance } from "../../redis/epoch.ts";
import { theRedis } from "../../redis/redis-settings.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { semaphoreLibrary } from "../../runtime/lua-modules.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchUs, wallSeconds } from "../../runtime/stopwatch.ts";
import { isScarce } from "../node/counter-memory.ts";
import { isDecidedHere } from "../redis/overload.ts";
import { isUsedUp, isUsedUpUntilRetry } from "../redis/replies.ts";
import { waitLimitMs } from "../redis/submit.ts";
import { type Check, newCheck, type Outcome } from "../store.ts";
import { hasRoom } from "./exchange.ts";
import { chargeExactly } from "./lease-messages.ts";
import { type Lease, type LeaseRefusal, leaseOf, refresh, refusalOf } from "./leases.ts";
import { allowFrom, demandOf, hasMore, hasUnits, refuse } from "./spend.ts";
import { keepWatching, lookAndWatch } from "./watch.ts";

/** A lease that is not watched is checked at most this often, in µs, unless this many units were requested. */
const lookEveryUs = 10_000;
const manyUnits = 5;
/** How often a waiting request checks whether another worker has received a reply. */
const waitSeconds = 0.002;
/** How often a request waits, for a reply or until a message may be sent, while Redis grants everything that is requested. */
const mostRounds = 10;

/**
 * Decides a check of a leased policy: from the lease if it has the units. Otherwise it yields, and waits for Redis as long as an
 * exact decision does: for a reply to the lease and for an exact decision together.
 *
 * @returns whether the request is allowed; undefined if Redis did not decide
 */
export function admitLeased(check: Check, outcome: Outcome): boolean | undefined {
  const { cost } = check.policy.policy;
  const lease = leaseOf(check.policy, check.keyValues);
  check.unanswered = undefined;
  const nowUs = stopwatchUs();
  if (allowFrom(lease, check, outcome, nowUs)) return true;
  keepWatching(nowUs);
  const { record } = lease;
  if (nowUs < record.refusedUntilUs) return refuse(lease, check, outcome, record.retryAtUs);
  lease.cost = cost;
  if (hasMore(lease) && allowFrom(lease, check, outcome, stopwatchUs())) return true;
  if (!lease.watched && (lease.asked >= manyUnits || nowUs - lease.lookedUs >= lookEveryUs)) lookAndWatch(lease);
  const { overload } = theRedis();
  if (overload !== undefined && isDecidedHere(overload, [check])) {
    check.overloaded = true;
    return undefined;
  }
  let way = mayLease(lease) ? wayFor(record, cost, stopwatchUs()) : "exact";
  let patienceUs = waitLimitMs(theRedis(), check.policy, check.asksRedis === true) * 1000;
  for (let round = 0; round < mostRounds && way !== "exact"; round++) {
    if (record.lost === 1 || patienceUs <= 0) {
      if (stopwatchUs() >= record.retryAtUs) return undefined;
      return refuse(lease, check, outcome, record.retryAtUs);
    }
    if (way === "refuse") {
      // Redis has more units; messages were only sent too often in a row.
      if (record.plenty === 0) break;
      sleepMs(math.ceil((refusedUntil(record) - stopwatchUs()) / 1000));
      refresh(lease);
    } else if (record.waiting === 1) {
      patienceUs -= awaitAnswer(lease, patienceUs);
    } else {
      lookAndWatch(lease);
      if (record.waiting === 0 && !hasRoom()) way = "exact";
    }
    if (allowFrom(lease, check, outcome, stopwatchUs())) return true;
    if (way !== "exact") way = wayFor(record, cost, stopwatchUs());
  }
  if (way === "exact") return decideExactly(lease, check, outcome, patienceUs / 1000);
  return refuse(lease, check, outcome, refusedUntil(record));
}

/** Refuses the check if that is certain without asking Redis. Spends nothing, and never yields. @returns whether it refuses */
export function refusesAtOnce(check: Check, outcome: Outcome): boolean {
  const { cost } = check.policy.policy;
  const lease = leaseOf(check.policy, check.keyValues);
  const { record } = lease;
  const nowUs = stopwatchUs();
  if (hasUnits(lease, cost, nowUs) || (hasMore(lease) && hasUnits(lease, cost, nowUs))) return false;
  if (nowUs < record.refusedUntilUs) return !refuse(lease, check, outcome, record.retryAtUs);
  const way = wayFor(record, cost, nowUs);
  if (way === "exact") return refusesAsBefore(lease, check, outcome);
  return way === "refuse" && record.plenty === 0 && !refuse(lease, check, outcome, refusedUntil(record));
}

/** Redis has refused as much or less a short time ago. */
function refusesAsBefore(lease: Lease, check: Check, outcome: Outcome): boolean {
  const refusal = refusalOf(lease);
  if (refusal === undefined || check.policy.policy.cost < refusal.cost || stopwatchUs() >= refusal.askAgainUs) {
    return false;
  }
  recall(lease, refusal);
  return !refuse(lease, check, outcome, refusal.untilUs, isUsedUp(check.policy, refusal));
}

/** @param limitMs the rest of the longest time that the request waits */
function decideExactly(lease: Lease, check: Check, outcome: Outcome, limitMs: number): boolean | undefined {
  const { policy, keyValues, chargedAt } = check;
  const { cost } = policy.policy;
  if (refusesAsBefore(lease, check, outcome)) return false;
  if (limitMs < 1) return undefined;
  const submittedUs = stopwatchUs();
  const submittedAtSeconds = wallSeconds();
  const own = newMergedDecision();
  const asked: Check = { ...newCheck(policy, keyValues, true), chargedAt };
  // A caller of the check API, whose checks have a decision of their own, leaves whenever it likes.
  if (check.isOneOfMany === true || check.merged !== undefined) asked.isOneOfMany = true;
  const [allowed, failure] = chargeExactly(theRedis(), asked, own, limitMs);
  if (allowed === undefined) {
    check.unanswered = asked.unanswered;
    warnSparingly("Redis did not decide", failure);
    return undefined;
  }
  mergeAll(check.merged ?? outcome.merged, own);
  check.allowed = allowed;
  if (allowed) {
    outcome.charges.push({
      policy,
      limits: policy.limits,
      keyValues,
      chargedAt,
      store: "exact",
      spent: { term: undefined },
      redis: redisInstance(),
    });
    lease.chargedUs = submittedUs;
    // A cheaper request has what a dearer one did not get.
    const known = lease.refusal;
    if (known !== undefined) lease.refusal = { ...known, remaining: math.max(0, known.remaining - cost) };
  } else {
    // If there is enough for a cheaper request, no lease could have paid this one.
    if (isUsedUp(policy, own.decision)) lease.asked += demandOf(lease, policy);
    rememberExactRefusal(lease, policy, own, submittedUs, submittedAtSeconds);
  }
  return allowed;
}

function rememberExactRefusal(
  lease: Lease,
  policy: CompiledPolicy,
  { limitName, violated, decision }: MergedDecision,
  submittedUs: number,
  submittedAtSeconds: number,
): void {
  const { limit, remaining, retryAfterUs, resetAfterUs } = decision;
  const nowUs = stopwatchUs();
  if (retryAfterUs <= 0) return;
  const untilUs = nowUs + retryAfterUs;
  const place = policy.limits.findIndex(({ name }) => name === limitName);
  const isLasting =
    violated.length === 1 && isUsedUpUntilRetry(policy, policy.limits[place] as CompiledLimit, decision);
  const refusal: LeaseRefusal = {
    cost: policy.policy.cost,
    atUs: submittedUs,
    untilUs,
    askAgainUs: askAgainAt(untilUs, nowUs),
    mostRestrictive: place,
    remaining: math.min(remaining, limit),
    resetAtUs: nowUs + resetAfterUs,
    isUsedUp: isUsedUp(policy, decision),
    nothingUntilUs: isLasting ? untilUs : 0,
    submittedAtSeconds,
  };
  lease.refusal = refusal;
  recall(lease, refusal);
}

/** Makes the record say what the refusal said: it may have been read anew since. */
function recall({ record }: Lease, { mostRestrictive, remaining, resetAtUs }: LeaseRefusal): void {
  record.mostRestrictive = mostRestrictive;
  record.remaining = remaining;
  record.resetAtUs = resetAtUs;
}

/** While memory is scarce, a spray of keys must not take it for leases: only existing leases go on. */
function mayLease(lease: Lease): boolean {
  return !isScarce() || refresh(lease);
}

/** Waits until the exchange that is in flight, in this worker or another, has ended. @returns how long it took */
function awaitAnswer(lease: Lease, patienceUs: number): number {
  const { record } = lease;
  const startUs = stopwatchUs();
  let waitedUs = 0;
  lease.waiting ??= semaphoreLibrary.new(0);
  while (record.waiting === 1 && record.lost === 0 && waitedUs < patienceUs) {
    lease.waiting.wait(waitSeconds);
    refresh(lease);
    waitedUs = stopwatchUs() - startUs;
  }
  return waitedUs;
}
