// What requests took while Redis did not decide: it is charged there when Redis answers again, so that a limit does not begin
// anew after a stutter. Each worker remembers its own.
//
// What Redis is told is what would still count, had it been asked. While Redis was not asked its own counter refilled, by a whole
// burst or window at most: for that long all of it counts. After that it shrinks, at the rate of this worker's share of the limit. What
// a fixed window took ends with the window.

import { capacity } from "../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { countForgottenUnits, countLateUnits } from "../metrics/redis-calls.ts";
import { liveGateways } from "../push/fleet.ts";
import { isReachable, type Script } from "../redis/script-call.ts";
import { callForNumber } from "../redis/script-reply.ts";
import { runUntilDone } from "../runtime/background.ts";
import { sleepMs } from "../runtime/clock.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchUs, wallSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import { groupsOf } from "./groups.ts";
import { keyOf, pushNumbers } from "./script-arguments.ts";

/** What one request took of one policy. */
export interface Owed {
  readonly redis: RedisSettings;
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** False: it was refused after all. */
  wentOn: boolean;
  /** Whether it is among the debts. */
  noted: boolean;
}

/** What all of them took of one policy and key. */
interface Debt {
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

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const chargeUpTo = scripts["charge_up_to"] as Script;
/** Policies and keys: a few MB. What is owed of more is forgotten. */
const mostDebts = 10_000;
/** A policy has at most 16 limits: with many more, Lua could not pass them all in one call. */
const mostDebtsPerCall = 50;
/** Requests that come when Redis answers again find what it has been told, in nearly all cases. */
const payEveryMs = 10;

const debts: Record<string, Debt | undefined> = {};
let count = 0;
let paying = false;
/** A gateway has one. */
let owedTo: RedisSettings | undefined;

/** Redis has not charged it. */
export function noteOwed(owed: Owed): void {
  if (!owed.wentOn || owed.noted) return;
  owed.noted = true;
  owe(owed.redis, owed.policy, owed.keyValues, owed.policy.policy.cost);
}

/** The request was refused after all. */
export function retractOwed(owed: Owed): void {
  owed.wentOn = false;
  if (!owed.noted) return;
  const debt = debts[owed.policy.counterPrefix + owed.keyValues];
  // Otherwise Redis has been told by now, and it stays charged.
  if (debt !== undefined) add(debt, -owed.policy.policy.cost);
}

/** @param units that were taken just now */
export function owe(redis: RedisSettings, policy: CompiledPolicy, keyValues: string, units: number): void {
  const name = policy.counterPrefix + keyValues;
  let debt = debts[name];
  owedTo = redis;
  if (debt === undefined || debt.policy.limits !== policy.limits) {
    if (count >= mostDebts) {
      countForgottenUnits(units);
      return;
    }
    if (debt === undefined) count += 1;
    const nowUs = stopwatchUs();
    const none = policy.limits.map(() => 0);
    debt = { policy, keyValues, units: none, sinceUs: nowUs, atUs: nowUs, windows: windowsOf(policy) };
    debts[name] = debt;
  }
  add(debt, units);
  if (paying) return;
  const failure = runUntilDone(payOnce);
  // Without a timer it is paid with the next.
  if (failure !== undefined) warnSparingly("Redis is told late what was taken without it", failure);
  else paying = true;
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
  sleepMs(payEveryMs);
  const [paid, defect] = pcall(pay);
  if (!paid) warnSparingly("Redis was not told what was taken without it", `${defect}`);
  paying = count > 0 && !ngx.worker.exiting();
  return paying;
}

/** Tells Redis all of it, until Redis cannot be told. */
function pay(): void {
  // As nearly always while it is away; of a Cluster, some nodes may be well.
  const settings = owedTo;
  if (settings === undefined || (settings.deployment.kind !== "cluster" && !isReachable(settings, 0))) return;
  const owing: Debt[] = [];
  for (const name in debts) owing.push(debts[name] as Debt);
  for (const { id, members } of groupsOf(settings, owing)) {
    if (!isReachable(settings, id)) continue;
    let from = 0;
    while (from < members.length) {
      const end = math.min(from + mostDebtsPerCall, members.length);
      const told = payTogether(settings, members.slice(from, end));
      // With Redis Cluster, other nodes may be well.
      if (!told) break;
      from = end;
    }
  }
}

/** @param members of one group. @returns false: Redis cannot be told now */
function payTogether(settings: RedisSettings, members: readonly Debt[]): boolean {
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
  const [reply, failure, mayHaveRun] = callForNumber(settings, chargeUpTo, keys.length, [...keys, ...args]);
  if (reply !== undefined) {
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

/** @returns the most units of a limit */
function pushDebt({ policy, keyValues, units }: Debt, keys: string[], args: string[]): number {
  let most = 0;
  for (let i = 0; i < units.length; i++) {
    const limit = policy.limits[i] as CompiledLimit;
    // What has begun to refill still counts whole.
    const whole = math.ceil(units[i] as number);
    if (whole === 0) continue;
    keys.push(keyOf(policy, limit, keyValues));
    args.push(limit.rate.algorithm);
    pushNumbers(args, limit, whole);
    most = math.max(most, whole);
  }
  return most;
}

function forget({ policy, keyValues }: Debt): void {
  debts[policy.counterPrefix + keyValues] = undefined;
  count -= 1;
}

/** With what came meanwhile. */
function remember(debt: Debt): void {
  const name = debt.policy.counterPrefix + debt.keyValues;
  const later = debts[name];
  if (later === undefined) {
    debts[name] = debt;
    count += 1;
  } else if (later.policy.limits === debt.policy.limits) {
    shrink(debt);
    for (let i = 0; i < debt.units.length; i++) later.units[i] = (later.units[i] as number) + (debt.units[i] as number);
  }
}
