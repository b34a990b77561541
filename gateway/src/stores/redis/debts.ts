// Units that requests took while Redis did not decide. They are charged when Redis answers again, so that a limit does not start
// afresh after a short outage. Each worker keeps its own debts.
//
// The charge is what would still count if Redis had been charged at once. While it was not charged, its own counter refilled, by
// a whole burst or window at most; for that long the whole debt counts. After that the debt shrinks, at the rate of this worker's
// share of the limit. Units of a fixed window expire with the window. For a policy that charges responses, and for reports, all units are
// charged, even those that the limit does not have.

import { followWindow } from "../../../../limiter/src/algorithms/calendar-window.ts";
import { capacity, type Rate } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { countForgottenUnits, countLateUnits } from "../../metrics/redis-calls.ts";
import { theRedis } from "../../redis/redis-settings.ts";
import { type Call, callScripts, groupOf, isReachable } from "../../redis/script-call.ts";
import { areNumbers, oddReply } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { hasPlace, leavePlace, newPlaces, takePlace } from "../../runtime/app-places.ts";
import { runUntilDone } from "../../runtime/background.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { noteDefect } from "../../runtime/defects.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchUs, wallSeconds } from "../../runtime/stopwatch.ts";
import { liveGateways } from "../../snapshot/live-gateways.ts";
import type { Owed, Unanswered } from "../store.ts";
import { deferredScript, leasedScript, numbersPerDeferred, pushDeferredKeys, scriptOf } from "./deferred-scripts.ts";
import { pushNumbers } from "./script-arguments.ts";
import { firstKey, groupsOf } from "./slot-groups.ts";
import { roundTrips } from "./slot-renewals.ts";

/** The units that all requests together took of one policy and key. */
interface Debt {
  readonly group: number;
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Whether it is charged beyond what is left, too. */
  readonly isWhole: boolean;
  /** For each limit, as of `atUs`; fractions come from refills. */
  readonly units: number[];
  /** By the stopwatch: when the debt began, and when it was last updated. */
  readonly sinceUs: number;
  atUs: number;
  /** For each limit with fixed windows: the window that the units belong to. */
  readonly windows: number[];
}

/** The debts of one group, by policy and key: one script call can charge several of them. */
type Debts = Record<string, Debt | undefined>;

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const chargeUpTo = scripts["charge_up_to"] as Script;
/** In policies and keys, which take a few MB. Further debts are dropped, those of apps that have many first. */
const mostDebts = 10_000;
/** The rest is paid after these. */
const mostDebtsTogether = 1_000;
/** What a script is told of one counter. */
const argumentsPerCounter = 5;
/** Short, so that in nearly all cases the debts are charged before requests reach a Redis that answers again. */
const firstPauseMs = 10;
/** Used while all nodes of a Cluster that are owed something are away. */
const longestPauseMs = 250;
/** Debts that have completely refilled are removed no more often than this, in µs. */
const sweepEveryUs = 1_000_000;

const groups: Record<number, Debts | undefined> = {};
/** By group: whether Redis refused to charge a response that it had admitted, and not all debts have been charged since. */
const uncharged: Record<number, boolean | undefined> = {};
/** By the apps of the policies. */
const places = newPlaces();
let paying = false;
let pauseMs = firstPauseMs;
let sweptUs = 0;

/** Called when the request goes on, and not before: Redis would be charged for requests that are refused, or whose clients leave. */
export function oweForGood(owed: Owed): void {
  const { policy, unanswered, reported } = owed;
  // Redis is owed the units of the response when they are known.
  if (policy.policy.deferred && reported === undefined) return;
  if (unanswered === undefined || unanswered.lost === false) noteOwed(owed);
  else if (unanswered.abandoned && unanswered.lost === undefined) oweWhenReplied(unanswered, owed);
}

/** Redis has not replied yet, or just has. */
function oweWhenReplied(unanswered: Unanswered, owed: Owed): void {
  if (unanswered.reconciled) {
    // What Redis had charged has been refunded by now. A report stays charged.
    if (owed.reported === undefined) noteOwed(owed);
  } else if (unanswered.owed === undefined) unanswered.owed = [owed];
  else unanswered.owed.push(owed);
}

/** Called when Redis has not charged these units. */
export function noteOwed({ policy, keyValues, reported }: Owed): void {
  const isWhole = policy.policy.deferred || reported !== undefined;
  owe(policy, keyValues, reported ?? policy.policy.cost, isWhole);
}

/** @param units that were just taken @param isWhole whether they are charged beyond what is left, too */
export function owe(policy: CompiledPolicy, keyValues: string, units: number, isWhole: boolean): void {
  if (!policy.limits.some(({ rate }) => rate.algorithm !== "concurrency")) return;
  const debt = debtOf(groupOf(theRedis(), firstKey({ policy, keyValues })), policy, keyValues, isWhole);
  if (debt === undefined) {
    countForgottenUnits(units);
    return;
  }
  add(debt, units);
  if (paying) return;
  pauseMs = firstPauseMs;
  const failure = runUntilDone(payOnce);
  // Without a timer, the debt is paid with the next one.
  if (failure !== undefined) warnSparingly("units that were taken without Redis are charged late", failure);
  else paying = true;
}

/** Called when Redis has refused to charge a response of this policy and key, which is now a debt. */
export function noteUncharged(policy: CompiledPolicy, keyValues: string): void {
  uncharged[groupOf(theRedis(), firstKey({ policy, keyValues }))] = true;
}

/**
 * Returns whether that is still so, and Redis therefore reports too much as remaining for the key. It ends once Redis has taken
 * all debts: while requests keep coming, there is always a new debt to charge next.
 */
export function isUncharged(policy: CompiledPolicy, keyValues: string): boolean {
  if (places.taken === 0) return false;
  const group = groupOf(theRedis(), firstKey({ policy, keyValues }));
  return uncharged[group] === true && groups[group]?.[nameOf({ policy, keyValues, isWhole: true })] !== undefined;
}

/** @returns undefined if there is no more room */
function debtOf(group: number, policy: CompiledPolicy, keyValues: string, isWhole: boolean): Debt | undefined {
  const debts = groups[group] ?? {};
  groups[group] = debts;
  const name = nameOf({ policy, keyValues, isWhole });
  const known = debts[name];
  if (known !== undefined && known.policy.limits === policy.limits) return known;
  if (known === undefined) {
    if (places.taken >= mostDebts) sweep();
    if (!hasPlace(places, policy.app, mostDebts)) return undefined;
    takePlace(places, policy.app);
  }
  const nowUs = stopwatchUs();
  // If the policy was edited meanwhile, the debts of unchanged limits are kept.
  const units = policy.limits.map(({ counterFamily }) => unitsOf(known, counterFamily));
  const debt = { group, policy, keyValues, isWhole, units, sinceUs: nowUs, atUs: nowUs, windows: windowsOf(policy) };
  debts[name] = debt;
  return debt;
}

function unitsOf(debt: Debt | undefined, counterFamily: string): number {
  const limits = debt?.policy.limits ?? [];
  for (let i = 0; i < limits.length; i++) {
    if ((limits[i] as CompiledLimit).counterFamily === counterFamily) return (debt as Debt).units[i] as number;
  }
  return 0;
}

/** Plans of a policy with other counters have debts of their own. The values come last, because clients write them. */
function nameOf({ policy, keyValues, isWhole }: Pick<Debt, "policy" | "keyValues" | "isWhole">): string {
  return `${isWhole ? "+" : ""}${policy.counterPrefix}${policy.limits.map(({ counterSuffix }) => counterSuffix).join("")}:${keyValues}`;
}

/** Makes room: removes debts that have completely refilled. */
function sweep(): void {
  const nowUs = stopwatchUs();
  if (nowUs - sweptUs < sweepEveryUs) return;
  sweptUs = nowUs;
  for (const group in groups) {
    const debts = groups[group] as Debts;
    for (const name in debts) {
      const debt = debts[name] as Debt;
      shrink(debt);
      if (!debt.units.some((units) => units > 0)) forget(debt);
    }
  }
}

function windowsOf({ limits }: CompiledPolicy): number[] {
  const nowUs = wallSeconds() * 1e6;
  return limits.map(({ rate }) => windowOf(rate, nowUs));
}

/** Returns a number that no other window of this limit has; 0 if it has no windows. */
function windowOf(rate: Rate, nowUs: number): number {
  if (rate.algorithm === "fixed-window") return math.floor(nowUs / rate.windowUs);
  if (rate.algorithm !== "calendar-window") return 0;
  followWindow(rate, nowUs);
  return rate.startUs;
}

function add(debt: Debt, units: number): void {
  shrink(debt);
  for (let i = 0; i < debt.units.length; i++) debt.units[i] = (debt.units[i] as number) + units;
}

/** Units that have refilled meanwhile are no longer owed. */
function shrink(debt: Debt): void {
  const { policy, units, windows } = debt;
  const nowUs = stopwatchUs();
  const shares = liveGateways() * ngx.worker.count();
  const windowsNow = windowsOf(policy);
  for (let i = 0; i < units.length; i++) {
    const { rate } = policy.limits[i] as CompiledLimit;
    if (rate.algorithm === "concurrency") {
      // Slots are freed by the requests that hold them.
      units[i] = 0;
    } else if (rate.algorithm === "fixed-window" || rate.algorithm === "calendar-window") {
      if (windows[i] !== windowsNow[i]) units[i] = 0;
      windows[i] = windowsNow[i] as number;
    } else {
      const wholeUntilUs = debt.sinceUs + (capacity(rate) / rate.quota) * rate.windowUs;
      const passedUs = nowUs - math.max(debt.atUs, wholeUntilUs);
      if (passedUs > 0) units[i] = math.max(0, (units[i] as number) - (passedUs * rate.quota) / rate.windowUs / shares);
    }
  }
  debt.atUs = nowUs;
}

/** @returns whether to run again */
function payOnce(): boolean {
  sleepMs(pauseMs);
  const [paid, reached] = pcall(pay);
  if (!paid) noteDefect("redis", "units that were taken without Redis could not be charged yet", reached);
  pauseMs = paid && reached ? firstPauseMs : math.min(pauseMs * 2, longestPauseMs);
  paying = places.taken > 0 && !ngx.worker.exiting();
  if (!paying) forgetAll();
  return paying;
}

/** Charges all debts in Redis, until Redis cannot be reached. @returns whether to try again soon */
function pay(): boolean {
  const settings = theRedis();
  const reachable: number[] = [];
  for (const group in groups) {
    const id = tonumber(group) as number;
    if (isReachable(settings, id)) reachable.push(id);
  }
  const stuck: Record<number, boolean | undefined> = {};
  // Further debts may be added while some are paid.
  let members = someOf(reachable, stuck);
  while (members.length > 0) {
    for (const together of roundTrips(members)) payTogether(together, stuck);
    members = someOf(reachable, stuck);
  }
  for (const group of reachable) {
    if (stuck[group] === true) continue;
    groups[group] = undefined;
    uncharged[group] = undefined;
  }
  // A single server can be tried again soon.
  return settings.deployment.kind !== "cluster" || reachable.length > 0;
}

/** @param stuck groups whose debts cannot be paid now */
function someOf(reachable: readonly number[], stuck: Record<number, boolean | undefined>): Debt[] {
  const some: Debt[] = [];
  for (const group of reachable) {
    const debts = stuck[group] === true ? {} : (groups[group] ?? {});
    for (const name in debts) {
      some.push(debts[name] as Debt);
      if (some.length === mostDebtsTogether) return some;
    }
  }
  return some;
}

/** Debts of one group, and the call that charges them. */
interface Payment {
  readonly group: number;
  readonly debts: readonly Debt[];
  readonly units: number;
  readonly counters: number;
  readonly call: Call;
}

/** @param members of one server @param stuck gets the groups whose debts cannot be paid now */
function payTogether(members: readonly Debt[], stuck: Record<number, boolean | undefined>): void {
  const settings = theRedis();
  const payments: Payment[] = [];
  for (const { id, members: debts } of groupsOf(settings, members)) {
    for (const script of [chargeUpTo, deferredScript, leasedScript]) {
      const own = debts.filter(({ policy, isWhole }) => (isWhole ? scriptOf(policy) : chargeUpTo) === script);
      addPayment(payments, id, script, own);
    }
  }
  const calls = payments.map(({ call }) => call);
  callScripts(settings, calls);
  for (const payment of payments) if (!settle(payment)) stuck[payment.group] = true;
}

/** @param debts of one group, which one script charges */
function addPayment(payments: Payment[], group: number, script: Script, debts: readonly Debt[]): void {
  const keys: string[] = [];
  const args: string[] = [];
  const present: Debt[] = [];
  let units = 0;
  for (const debt of debts) {
    // Another one may have taken its place meanwhile.
    if (groups[debt.group]?.[nameOf(debt)] !== debt) continue;
    shrink(debt);
    units += pushDebt(debt, keys, args);
    // Units that are taken during the call become a new debt.
    forget(debt);
    present.push(debt);
  }
  if (keys.length === 0) return;
  const keysAndArgs = keys.concat(args);
  const call: Call = { script, keyCount: keys.length, keysAndArgs, reply: undefined, failure: undefined };
  payments.push({ group, debts: present, units, counters: args.length / argumentsPerCounter, call });
}

/** @returns false: it was certainly not made, and is owed again */
function settle({ debts, units, counters, call }: Payment): boolean {
  const { script, reply, failure, mayHaveRun } = call;
  const fits = script === chargeUpTo ? type(reply) === "number" : areNumbers(reply, counters * numbersPerDeferred);
  if (fits) {
    countLateUnits(units);
  } else if (failure === undefined || mayHaveRun) {
    warnSparingly("units that were taken without Redis may not be charged", failure ?? oddReply);
    countForgottenUnits(units);
  } else {
    for (const debt of debts) remember(debt);
    return false;
  }
  return true;
}

/** @returns the largest number of units over all limits */
function pushDebt({ policy, keyValues, isWhole, units }: Debt, keys: string[], args: string[]): number {
  let most = 0;
  for (let i = 0; i < units.length; i++) {
    const limit = policy.limits[i] as CompiledLimit;
    // A unit that has partly refilled counts as a whole.
    const whole = math.ceil(units[i] as number);
    if (whole === 0) continue;
    if (isWhole) pushDeferredKeys(keys, policy, limit, keyValues);
    else keys.push(keyOf(policy, limit, keyValues));
    args.push(limit.rate.algorithm);
    pushNumbers(args, limit, whole);
    most = math.max(most, whole);
  }
  return most;
}

function forget(debt: Debt): void {
  const debts = groups[debt.group];
  const name = nameOf(debt);
  if (debts === undefined || debts[name] !== debt) return;
  debts[name] = undefined;
  leavePlace(places, debt.policy.app);
}

/** Adds the debt again, to any debt that arose meanwhile. */
function remember(debt: Debt): void {
  const debts = groups[debt.group] ?? {};
  groups[debt.group] = debts;
  const name = nameOf(debt);
  const later = debts[name];
  if (later === undefined) {
    debts[name] = debt;
    takePlace(places, debt.policy.app);
    return;
  }
  for (let i = 0; i < later.units.length; i++) {
    const { counterFamily } = later.policy.limits[i] as CompiledLimit;
    later.units[i] = (later.units[i] as number) + unitsOf(debt, counterFamily);
  }
}

/** A worker that ends cannot charge its debts any more. */
function forgetAll(): void {
  for (const group in groups) {
    const debts = groups[group] as Debts;
    for (const name in debts) {
      const debt = debts[name] as Debt;
      shrink(debt);
      countForgottenUnits(math.ceil(math.max(0, ...debt.units)));
      forget(debt);
    }
  }
}
