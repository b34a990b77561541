// Decides the checks of a caller: every check is decided and gets its own result. All of them are charged or none, as the caller wishes, or
// each by itself. If one is refused of those that belong together, the charges of the others are refunded.
//
// Checks that belong together and have the same policy and key are decided together, as one with the sum of their costs. So a counter is charged once, and
// the stores, which load and save each counter of a group, never get the same one twice. Where the caller names the plan, the first of them does.
//
// Bans, exemptions, overrides and the schedule apply as they do to the gateway's own requests, by the key that the caller gives:
// if the key has the part ip, its value is the client's address.
//
// A check that only peeks is looked at before anything is charged, and by itself: the units that others take are still there. If it would be
// refused, the others are refunded.
//
// A report charges what was used already. It is never refused for lack of units, and cannot be taken back: if a report of those that belong together
// may not be charged, because its key is banned or missing, none is, and the others are only looked at.
//
// A check that comes alone may wait for its units, in line with others that wait for the same counter.
//
// Redis decides first: while the call waits for it, nothing is charged on this node. One script charges all checks in Redis, or
// none; a refusal on this node refunds them.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { clearMerged, type MergedDecision, newMergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { admit, admitTogether, forgetUndecided, keepUndecided } from "../charging/admit.ts";
import { admitInTurn } from "../charging/delay.ts";
import { handOver, holdSlots, withoutSlots } from "../charging/held-slots.ts";
import { peek } from "../charging/peek.ts";
import { chargeForGood, refundSurely } from "../charging/refunds.ts";
import { observeReport, report } from "../charging/report.ts";
import { observe } from "../charging/shadow.ts";
import { mayWait, mostOfOnePolicy, refuseToWait, waitUs } from "../charging/waiting-requests.ts";
import { countCallersDecision } from "../metrics/caller-counts.ts";
import { countDecision, countRefusedRequest } from "../metrics/counts.ts";
import {
  type AppliedPolicy,
  applicabilityToAddress,
  applicabilityToKey,
  isBannedEverywhere,
} from "../request/applicability.ts";
import { pricedPolicy } from "../request/costs.ts";
import { areLogged, logDecision } from "../respond/log-variables.ts";
import { reportShadowRefusal } from "../respond/shadow-report.ts";
import { undoingDefects } from "../runtime/defects.ts";
import { type Charge, type Check, newCheck, newOutcome, type Outcome as StoreOutcome } from "../stores/store.ts";
import type { Caller } from "./caller-tokens.ts";
import { beginPeeking, callsAtOnce, endPeeking } from "./peeks.ts";

/** How the checks of a request belong together: all of them are charged or none, or each is decided by itself. */
export type Mode = "all" | "each";

export interface RequestedCheck {
  readonly policy: CompiledPolicy;
  /** The policy with the limits that decide. */
  readonly applied: CompiledPolicy;
  /** In the key's order, not encoded, as the gateway would have read them. */
  readonly values: readonly string[];
  /** Undefined: a value that the policy counts by is missing. */
  readonly keyValues: string | undefined;
  /** The client's address, if the policy counts by it. */
  readonly address: string | undefined;
  readonly cost: number;
  /** The plan that the caller names. Undefined: none. */
  readonly plan: string | undefined;
  /** Whether it charges nothing. */
  readonly isPeek: boolean;
  /** Whether it charges what was used already, beyond what is left too. */
  readonly isReport: boolean;
  /** How long it may wait for its units; not 0 only if it comes alone. */
  readonly maxWaitUs: number;
  /** Whether its caller holds the slots until it releases them. */
  readonly holds: boolean;
}

/** Why the limits did not decide. */
export type Reason = "off" | "exempt" | "banned" | "shadow" | "key-missing" | "undecided";

export interface Outcome {
  /** The policy as it applies to this check: an override of it. */
  readonly policy: CompiledPolicy;
  /** As in the requested check. */
  readonly values: readonly string[];
  /** Undefined: a value is missing. */
  readonly keyValues: string | undefined;
  cost: number;
  allowed: boolean;
  /** Undefined: the limits decided, and `merged` has the result. */
  reason: Reason | undefined;
  readonly merged: MergedDecision;
  /** Whether it charges nothing. */
  readonly isPeek: boolean;
  readonly isReport: boolean;
  /** Of a report: how many units it charged beyond what was left. */
  debt: number;
  charged: boolean;
  /** How long it has waited for its units and its turn. Undefined: it was not to wait. */
  waitedUs: number | undefined;
  /** What the policy decided in shadow mode, if it would have refused. */
  shadow?: MergedDecision;
  /** Redis did not decide. */
  degraded?: boolean;
  /** That was by choice. */
  overloaded?: boolean | undefined;
}

/**
 * One more than any limit can hold. Larger sums are refused just the same, and this one is in the range that the algorithms
 * support.
 */
const mostCost = 2147483649;

/** Work space, which is read before anything yields. */
const applied = {} as AppliedPolicy;

/**
 * @param charges empty at first; afterwards it has the charges, which are already refunded if all belong together and an outcome is a refusal
 * @returns an outcome for each requested check, in their order; checks that were decided together share one
 */
export function decideRequestedChecks(
  caller: Caller,
  requested: readonly RequestedCheck[],
  charges: Charge[],
  mode: Mode = "all",
): Outcome[] {
  const outcomes: Outcome[] = [];
  const distinct: Outcome[] = [];
  gather(requested, outcomes, distinct, mode);

  const peeks: Outcome[] = [];
  const reports: Outcome[] = [];
  const inFleet: Outcome[] = [];
  const onNode: Outcome[] = [];
  for (const outcome of distinct) {
    if (outcome.reason !== undefined) continue;
    if (outcome.isPeek) peeks.push(outcome);
    else if (outcome.isReport) reports.push(outcome);
    else if (isOnNode(outcome)) onNode.push(outcome);
    else inFleet.push(outcome);
  }
  if (peeks.length > 0) lookAtAll(caller.app, peeks);
  if (reports.length > 0) {
    if (mode === "each" || allAllowed(distinct)) reportAll(caller.app, reports, mode);
    else lookInstead(caller.app, reports);
  }
  const { maxWaitUs, holds } = requested[0] as RequestedCheck;
  const waits = maxWaitUs > 0 ? (inFleet[0] ?? onNode[0]) : undefined;
  if (waits !== undefined) {
    decideInTurn(caller.app, waits, maxWaitUs, charges);
  } else if (mode === "all") {
    decideByStores(inFleet, charges);
    decideByStores(onNode, charges);
  } else {
    decideEach(inFleet, onNode, charges);
  }
  forgetUndecided();
  const isRefused = mode === "all" && !allAllowed(distinct);
  if (isRefused) takeBack(distinct, charges);
  // Slots in shadow mode would be held for as long as this request lasts, which says nothing.
  const watched = holds ? [] : distinct.filter(({ reason, isPeek }) => reason === "shadow" && !isPeek);
  // Redis may be asked for these, and the caller may leave meanwhile. What a refused check was charged is refunded already.
  if (!isRefused && watched.length > 0 && charges.length > 0) keepUndecided(charges);
  for (const outcome of watched) {
    if (!outcome.isReport) watch(outcome);
    else if (!isRefused && outcome.keyValues !== undefined) observeReport(checkOf(outcome), outcome.cost);
  }
  forgetUndecided();
  // The caller of a hold charges for good once the hold is noted.
  if (!isRefused && !holds) chargeForGood(charges);
  for (const { policy, keyValues, reason, allowed, merged, isPeek } of outcomes) {
    if (isPeek) continue;
    countCallersDecision(allowed ? caller.allowedSeries : caller.refusedSeries);
    if (reason === undefined || reason === "undecided" || !allowed) {
      countDecision(policy, allowed ? "allowed" : "refused", keyValues);
    }
    if (allowed && merged.delayUs > 0) countDecision(policy, "delayed", undefined);
    if (!allowed && merged.policy !== undefined) countRefusedRequest(policy, merged.limitName);
  }
  if (areLogged()) logForAll(outcomes);
  return outcomes;
}

/** The check that is refused speaks for all of them, or the one that shadow mode would refuse, or the first. */
function logForAll(outcomes: readonly Outcome[]): void {
  const spoken =
    outcomes.find(({ allowed }) => !allowed) ?? outcomes.find(({ shadow }) => shadow !== undefined) ?? outcomes[0];
  if (spoken === undefined) return;
  const { policy, values, keyValues, allowed, reason, merged, shadow, degraded = false, overloaded = false } = spoken;
  logDecision({
    word: reason === "banned" ? "banned" : allowed ? "allowed" : "refused",
    delayUs: allowed ? longestDelayUs(outcomes) : 0,
    shadowRefused: shadow !== undefined,
    degraded,
    overloaded,
    reason: reason === "banned" || reason === "shadow" ? undefined : reason,
    policy,
    values: keyValues === undefined ? [] : values,
    by: shadow ?? (reason === undefined ? merged : undefined),
  });
}

export function allAllowed(outcomes: readonly Outcome[]): boolean {
  for (const { allowed } of outcomes) {
    if (!allowed) return false;
  }
  return true;
}

/** The longest wait that a limit demands of the caller before it goes on, in µs. */
export function longestDelayUs(outcomes: readonly Outcome[]): number {
  let longest = 0;
  for (const { merged } of outcomes) longest = math.max(longest, merged.delayUs);
  return longest;
}

/** Combines the checks of one policy and key, unless no counter decides them. */
function gather(requested: readonly RequestedCheck[], outcomes: Outcome[], distinct: Outcome[], mode: Mode): undefined {
  const byCounters: Record<string, Outcome> = {};
  for (const ask of requested) {
    const { keyValues, cost, isPeek, isReport } = ask;
    const reason = reasonOf(ask);
    const isTogether = mode === "all" && !isPeek && keyValues !== undefined;
    const isCounted = isTogether && (reason === undefined || reason === "shadow");
    const counters = isCounted ? ask.policy.counterPrefix + keyValues : "";
    let outcome = isCounted ? byCounters[counters] : undefined;
    if (outcome === undefined) {
      outcome = {
        policy: applied.policy,
        values: ask.values,
        keyValues,
        cost,
        allowed: passes(reason, ask.policy),
        reason,
        merged: newMergedDecision(),
        isPeek,
        isReport,
        debt: 0,
        charged: false,
        waitedUs: ask.maxWaitUs > 0 ? 0 : undefined,
      };
      if (isCounted) byCounters[counters] = outcome;
      distinct.push(outcome);
    } else {
      outcome.cost = isReport ? outcome.cost + cost : math.min(outcome.cost + cost, mostCost);
    }
    outcomes.push(outcome);
  }
}

/** Also fills `applied`. */
function reasonOf({ policy, applied: known, values, keyValues, address, plan }: RequestedCheck): Reason | undefined {
  const { mode } = policy.policy;
  applied.policy = policy;
  if (address !== undefined && isBannedEverywhere(address)) return "banned";
  const before = applicabilityToAddress(policy, address);
  if (before !== "applies") return before;
  if (keyValues === undefined) return mode === "shadow" ? "shadow" : "key-missing";
  const applicability = applicabilityToKey(policy, values, plan, applied, known);
  if (applicability !== "applies") return applicability;
  return applied.policy.policy.mode === "shadow" ? "shadow" : undefined;
}

function passes(reason: Reason | undefined, { policy }: CompiledPolicy): boolean {
  if (reason === "key-missing") return policy.onMissingKey === "skip";
  return reason !== "banned";
}

function isOnNode({ policy }: Outcome): boolean {
  return policy.policy.store === "node";
}

/** A report is charged whatever the policy's cost is. */
function checkOf({ policy, keyValues, cost, isReport }: Outcome): Check {
  return newCheck(isReport ? policy : pricedPolicy(policy, cost), keyValues as string, true);
}

/** The outcome gets the decisions of the check's limits. */
function checkWithResultOf(outcome: Outcome): Check {
  const check = checkOf(outcome);
  check.merged = outcome.merged;
  return check;
}

/** Decides these outcomes by the stores of their policies. */
function decideByStores(outcomes: readonly Outcome[], charges: Charge[]): void {
  if (outcomes.length === 0) return;
  const checks: Check[] = [];
  for (const outcome of outcomes) checks.push(checkWithResultOf(outcome));
  admitTogether(checks, { merged: newMergedDecision(), charges, denial: undefined });
  for (let i = 0; i < outcomes.length; i++) {
    const outcome = outcomes[i] as Outcome;
    noteDecision(outcome, checks[i] as Check, charges);
  }
}

/** One call to Redis decides many of them. */
function decideEach(inFleet: readonly Outcome[], onNode: readonly Outcome[], charges: Charge[]): void {
  keepUndecided(charges);
  inThreads(inFleet, onNode, (outcome) => {
    const own: Charge[] = [];
    decideByStores([outcome], own);
    for (const charge of own) charges.push(charge);
  });
}

/** Does this with each, with those that wait for Redis at once. */
function inThreads<Item>(
  inFleet: readonly Item[],
  onNode: readonly Item[],
  act: (this: void, item: Item) => void,
): void {
  const threads = inFleet.map((item) => ngx.thread.spawn(() => undoingDefects(act, item)));
  for (const item of onNode) act(item);
  for (const thread of threads) {
    const [done, failure] = ngx.thread.wait(thread);
    if (!done) error(`${failure}`, 0);
  }
}

function noteDecision(outcome: Outcome, check: Check, charges: readonly Charge[]): void {
  outcome.allowed = check.allowed === true;
  outcome.charged = isCharged(check, charges);
  noteDegradation(outcome, check);
}

function isCharged(check: Check, charges: readonly Charge[]): boolean {
  for (const { chargedAt, limits } of charges) {
    if (chargedAt === check.chargedAt && limits.length > 0) return true;
  }
  return false;
}

/** Waits for the units, and after them for the turn that a leaky-bucket gives. While it waits, nothing is charged that is not refunded if the caller leaves. */
function decideInTurn(caller: string, outcome: Outcome, maxWaitUs: number, charges: Charge[]): void {
  const { merged } = outcome;
  const check = checkWithResultOf(outcome);
  const own: StoreOutcome = { ...newOutcome(), merged, charges };
  const decide = () => {
    clearMerged(merged);
    own.denial = undefined;
    return admit(check, own);
  };
  admitInTurn(
    check.policy,
    check.keyValues,
    { maxDelayUs: maxWaitUs, maxWaiting: mostOfOnePolicy(), caller },
    own,
    decide,
  );
  noteDecision(outcome, check, charges);
  const waitedUs = own.waitedUs ?? 0;
  outcome.waitedUs = waitedUs;
  const { delayUs } = merged;
  if (!outcome.allowed || delayUs === 0) return;
  const leftUs = maxWaitUs - waitedUs;
  if (delayUs > leftUs || !mayWait(outcome.policy, mostOfOnePolicy(), caller)) {
    turnAway(outcome, charges);
    return;
  }
  outcome.waitedUs = waitedUs + delayUs;
  if (waitForTurn(caller, delayUs, outcome.policy, charges)) merged.delayUs = 0;
  else turnAway(outcome, charges);
}

/** @param charges of the one check: its slots are held meanwhile @returns false: they were lost */
function waitForTurn(caller: string, delayUs: number, policy: CompiledPolicy, charges: readonly Charge[]): boolean {
  const charge = policy.policy.holdsSlots ? charges[0] : undefined;
  const held = charge === undefined ? undefined : holdSlots(charge);
  keepUndecided(held === undefined ? charges : withoutSlots(charge as Charge));
  waitUs(delayUs, policy, charges, caller);
  return held === undefined || handOver(held, charge as Charge);
}

/** Refuses the check because it would have to wait for its turn, and may not. */
export function turnAway(outcome: Outcome, charges: Charge[]): void {
  refuseToWait(outcome.merged, outcome.policy);
  outcome.allowed = false;
  outcome.charged = false;
  refundSurely(charges.splice(0));
}

function lookAtAll(app: string, peeks: readonly Outcome[]): void {
  const inFleet: Outcome[][] = [];
  const onNode: Outcome[] = [];
  let next = 0;
  for (const outcome of peeks) {
    if (isOnNode(outcome)) {
      onNode.push(outcome);
      continue;
    }
    inFleet[next] ??= [];
    inFleet[next]?.push(outcome);
    next = (next + 1) % callsAtOnce;
  }
  const asksRedis = inFleet.length > 0 && beginPeeking(app);
  inThreads(inFleet, [onNode], (outcomes) => {
    for (const outcome of outcomes) look(outcome, asksRedis);
  });
  endPeeking();
}

function look(outcome: Outcome, asksRedis: boolean): void {
  const check = checkOf(outcome);
  outcome.allowed = peek(check, outcome.merged, asksRedis || isOnNode(outcome));
  noteDegradation(outcome, check);
}

/** One call to Redis charges many of them. Of those that belong together, none on this node is charged if one in Redis could not be. */
function reportAll(app: string, reports: readonly Outcome[], mode: Mode): void {
  const inFleet: Outcome[] = [];
  const onNode: Outcome[] = [];
  for (const outcome of reports) {
    if (isOnNode(outcome)) onNode.push(outcome);
    else inFleet.push(outcome);
  }
  inThreads(inFleet, [], reportOne);
  if (mode === "each" || allAllowed(inFleet)) for (const outcome of onNode) reportOne(outcome);
  else lookInstead(app, onNode);
}

/** Reports that are not charged, because others that belong to them cannot be, hear what is left. */
function lookInstead(app: string, reports: readonly Outcome[]): void {
  lookAtAll(app, reports);
  for (const outcome of reports) outcome.allowed = outcome.reason === undefined || outcome.allowed;
}

function reportOne(this: void, outcome: Outcome): void {
  const check = checkOf(outcome);
  const debt = report(check, outcome.cost, outcome.merged);
  outcome.debt = debt ?? 0;
  outcome.allowed = debt !== undefined;
  noteDegradation(outcome, check);
}

function noteDegradation(outcome: Outcome, { degraded, overloaded }: Check): void {
  outcome.degraded = degraded;
  outcome.overloaded = degraded && overloaded;
  if (degraded && outcome.policy.policy.onStoreFailure !== "local") outcome.reason = "undecided";
}

function watch(outcome: Outcome): void {
  if (outcome.keyValues === undefined) return;
  const [result, merged] = observe(checkOf(outcome));
  if (result !== "shadow-refused") return;
  reportShadowRefusal(outcome.policy, () => outcome.values);
  outcome.shadow = merged;
}

/** Adds refunded units to the remaining units that are reported. */
function takeBack(outcomes: readonly Outcome[], charges: readonly Charge[]): void {
  for (const { charged, cost, merged } of outcomes) {
    if (charged) merged.decision.remaining = math.min(merged.decision.remaining + cost, merged.decision.limit);
  }
  refundSurely(charges);
}
