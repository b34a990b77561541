// What requests took while Redis did not decide: it is charged there when Redis answers again, so that a limit does not begin
// anew after a stutter. Each worker remembers its own.
//
// What Redis is told is what would still count, had it been asked. While Redis was not asked its own counter refilled, by a whole
// burst or window at most: for that long all of it counts. After that it shrinks, at the rate of this worker's share of the limit. What
// a fixed window took ends with the window. Of a policy that charges what responses took, all of it is settled, also what the
// limit does not have.

import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { debtKeyOf, keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { countForgottenUnits, countLateUnits } from "../../metrics/redis-calls.ts";
import { theRedis } from "../../redis/redis-settings.ts";
import { groupOf, isReachable } from "../../redis/script-call.ts";
import { callForNumber, callForNumbers } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { runUntilDone } from "../../runtime/background.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchUs, wallSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import { liveGateways } from "../../snapshot/live-gateways.ts";
import type { Owed } from "../store.ts";
import { pushNumbers } from "./script-arguments.ts";
import { firstKey } from "./slot-groups.ts";

/** What all of them took of one policy and key. */
interface Debt {
  readonly group: number;
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Of each limit, as of `atUs`; fractions are of what has refilled. */
  readonly units: number[];
  /** By the stopwatch: since when something is owed, and when it was last brought up to date. */
  readonly sinceUs: number;
  atUs: number;
  /** Of each limit that counts by fixed windows, the one that the units belong to. */
  readonly windows: number[];
}

/** The debts of one group, by policy and key: one script can be told of all of them. */
type Debts = Record<string, Debt | undefined>;

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const chargeUpTo = scripts["charge_up_to"] as Script;
const chargeDeferredScript = scripts["charge_deferred"] as Script;
/** What `settle` replies of each counter. */
const numbersPerDeferred = 4;
/** Policies and keys: a few MB. What is owed of more is forgotten. */
const mostDebts = 10_000;
/** A policy has at most 16 limits: with many more, Lua could not pass them all in one call. */
const mostDebtsPerCall = 50;
/** Requests that come when Redis answers again find what it has been told, in nearly all cases. */
const firstPauseMs = 10;
/** While the nodes of a Cluster that are owed something are all away. */
const longestPauseMs = 250;
/** What has refilled to the last unit is looked for no more often than this, in µs. */
const sweepEveryUs = 1_000_000;

const groups: Record<number, Debts | undefined> = {};
/** Whether Redis has refused to charge a response that it had let on, and has not been told all since. By group. */
const uncharged: Record<number, boolean | undefined> = {};
let count = 0;
let paying = false;
let pauseMs = firstPauseMs;
let sweptUs = 0;

/** Redis has not charged it. */
export function noteOwed(owed: Owed): void {
  if (!owed.wentOn || owed.noted) return;
  owed.noted = true;
  owe(owed.policy, owed.keyValues, owed.policy.policy.cost);
}

/** The request was refused after all. */
export function retractOwed(owed: Owed): void {
  owed.wentOn = false;
  if (!owed.noted) return;
  const debt = groups[groupOf(theRedis(), firstKey(owed))]?.[nameOf(owed)];
  // Otherwise Redis has been told by now, and it stays charged.
  if (debt !== undefined) add(debt, -owed.policy.policy.cost);
}

/** @param units that were taken just now */
export function owe(policy: CompiledPolicy, keyValues: string, units: number): void {
  if (!policy.limits.some(({ rate }) => rate.algorithm !== "concurrency")) return;
  const debt = debtOf(groupOf(theRedis(), firstKey({ policy, keyValues })), policy, keyValues);
  if (debt === undefined) {
    countForgottenUnits(units);
    return;
  }
  add(debt, units);
  if (paying) return;
  pauseMs = firstPauseMs;
  const failure = runUntilDone(payOnce);
  // Without a timer it is paid with the next.
  if (failure !== undefined) warnSparingly("Redis is told late what was taken without it", failure);
  else paying = true;
}

/** Redis has refused to charge what a response of this policy and key took, which is owed now. */
export function noteUncharged(policy: CompiledPolicy, keyValues: string): void {
  uncharged[groupOf(theRedis(), firstKey({ policy, keyValues }))] = true;
}

/**
 * Whether that is so still, and so what Redis says of the key is too much. Only until it has taken what was owed once: while
 * requests come one after the other, there is always something that it will be told next.
 */
export function isUncharged(policy: CompiledPolicy, keyValues: string): boolean {
  if (count === 0) return false;
  const group = groupOf(theRedis(), firstKey({ policy, keyValues }));
  return uncharged[group] === true && groups[group]?.[nameOf({ policy, keyValues })] !== undefined;
}

/** @returns undefined where there is room for no more */
function debtOf(group: number, policy: CompiledPolicy, keyValues: string): Debt | undefined {
  const debts = groups[group] ?? {};
  groups[group] = debts;
  const name = nameOf({ policy, keyValues });
  const known = debts[name];
  if (known !== undefined && known.policy.limits === policy.limits) return known;
  if (known === undefined) {
    if (count >= mostDebts) sweep();
    if (count >= mostDebts) return undefined;
    count += 1;
  }
  const nowUs = stopwatchUs();
  // Of a policy that was edited meanwhile, the same limits go on.
  const units = policy.limits.map(({ counterFamily }) => unitsOf(known, counterFamily));
  const debt = { group, policy, keyValues, units, sinceUs: nowUs, atUs: nowUs, windows: windowsOf(policy) };
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

function nameOf({ policy, keyValues }: Pick<Debt, "policy" | "keyValues">): string {
  return policy.counterPrefix + keyValues;
}

/** Makes room: drops what has refilled. */
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
  return limits.map(({ rate }) => (rate.algorithm === "fixed-window" ? math.floor(nowUs / rate.windowUs) : 0));
}

function add(debt: Debt, units: number): void {
  shrink(debt);
  for (let i = 0; i < debt.units.length; i++) debt.units[i] = math.max(0, (debt.units[i] as number) + units);
}

/** What has refilled meanwhile is owed no longer. */
function shrink(debt: Debt): void {
  const { policy, units, windows } = debt;
  const nowUs = stopwatchUs();
  const shares = liveGateways() * ngx.worker.count();
  const windowsNow = windowsOf(policy);
  for (let i = 0; i < units.length; i++) {
    const { rate } = policy.limits[i] as CompiledLimit;
    if (rate.algorithm === "concurrency") {
      // Slots come back with the requests that hold them.
      units[i] = 0;
    } else if (rate.algorithm === "fixed-window") {
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

/** @returns whether to try once more */
function payOnce(): boolean {
  sleepMs(pauseMs);
  const [paid, reached] = pcall(pay);
  if (!paid) warnSparingly("Redis was not told what was taken without it", `${reached}`);
  pauseMs = paid && reached ? firstPauseMs : math.min(pauseMs * 2, longestPauseMs);
  paying = count > 0 && !ngx.worker.exiting();
  if (!paying) forgetAll();
  return paying;
}

/** Tells Redis all of it, until Redis cannot be told. @returns whether to look again soon */
function pay(): boolean {
  const settings = theRedis();
  // One server is soon asked about.
  let soon = settings.deployment.kind !== "cluster";
  // Others come while one is paid.
  const owed: number[] = [];
  for (const group in groups) owed.push(tonumber(group) as number);
  for (const group of owed) {
    if (!isReachable(settings, group)) continue;
    soon = true;
    if (payGroup(settings, group, groups[group] as Debts)) groups[group] = undefined;
  }
  return soon;
}

/** @returns whether nothing is owed any more */
function payGroup(settings: RedisSettings, group: number, debts: Debts): boolean {
  let members = someOf(debts);
  while (members.length > 0) {
    if (!payTogether(settings, members)) return false;
    members = someOf(debts);
  }
  uncharged[group] = undefined;
  return true;
}

function someOf(debts: Debts): Debt[] {
  const some: Debt[] = [];
  for (const name in debts) {
    some.push(debts[name] as Debt);
    if (some.length === mostDebtsPerCall) break;
  }
  return some;
}

/** @param members of one group. @returns false: Redis cannot be told now */
function payTogether(settings: RedisSettings, members: readonly Debt[]): boolean {
  const reconciled = members.filter(({ policy }) => policy.deferred);
  const others = members.filter(({ policy }) => !policy.deferred);
  return payBy(settings, chargeUpTo, others) && payBy(settings, chargeDeferredScript, reconciled);
}

function payBy(settings: RedisSettings, script: Script, members: readonly Debt[]): boolean {
  const keys: string[] = [];
  const args: string[] = [];
  let units = 0;
  for (const debt of members) {
    shrink(debt);
    units += pushDebt(debt, keys, args);
    // What is taken while the call is under way is another debt.
    forget(debt);
  }
  if (keys.length === 0) return true;
  const [failure, mayHaveRun] = callFor(settings, script, keys, args);
  if (failure === undefined) {
    countLateUnits(units);
    return true;
  }
  if (mayHaveRun) {
    warnSparingly("units that were taken without Redis may not be charged", failure);
    countForgottenUnits(units);
    return true;
  }
  for (const debt of members) remember(debt);
  return false;
}

function callFor(
  settings: RedisSettings,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): LuaMultiReturn<[failure: string | undefined, mayHaveRun: boolean]> {
  const all = [...keys, ...args];
  if (script === chargeUpTo) {
    const [, failure, mayHaveRun] = callForNumber(settings, script, keys.length, all);
    return $multi(failure, mayHaveRun);
  }
  const replies = (keys.length / 2) * numbersPerDeferred;
  const [, failure, mayHaveRun] = callForNumbers(settings, script, keys.length, all, replies);
  return $multi(failure, mayHaveRun);
}

/** @returns the most units of a limit */
function pushDebt({ policy, keyValues, units }: Debt, keys: string[], args: string[]): number {
  let most = 0;
  for (let i = 0; i < units.length; i++) {
    const limit = policy.limits[i] as CompiledLimit;
    // What has begun to refill still counts whole.
    const whole = math.ceil(units[i] as number);
    if (whole === 0) continue;
    const key = keyOf(policy, limit, keyValues);
    keys.push(key);
    // Where what the limit does not have is kept.
    if (policy.deferred) keys.push(debtKeyOf(key));
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
  count -= 1;
}

/** With what came meanwhile. */
function remember(debt: Debt): void {
  const debts = groups[debt.group] ?? {};
  groups[debt.group] = debts;
  const name = nameOf(debt);
  const later = debts[name];
  if (later === undefined) {
    debts[name] = debt;
    count += 1;
    return;
  }
  for (let i = 0; i < later.units.length; i++) {
    const { counterFamily } = later.policy.limits[i] as CompiledLimit;
    later.units[i] = (later.units[i] as number) + unitsOf(debt, counterFamily);
  }
}

/** A worker that ends tells nobody any more. */
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
