// Runs one fleet under load: every policy is offered three times its limit, equally at all gateways in the first half of the
// time, and unevenly in the second. Then it plays worked case 2 at its full length.

import { setTimeout as sleep } from "node:timers/promises";
import { Load } from "../fixtures/clients/load.ts";
import { playVendor, Vendor, vendorPolicies } from "../fixtures/documents/sms-vendor.ts";
import { atMost, type Fact } from "../fixtures/measures/fact.ts";
import { countsOf } from "../fixtures/measures/gateway-counts.ts";
import { between, type RedisClock, readRedisClock } from "../fixtures/servers/redis-clock.ts";
import { System } from "../fixtures/servers/system.ts";
import { type Account, accountOf } from "./account.ts";
import { documentOf, type Measured, overload, perSecond } from "./policies.ts";

/** How many of a hundred requests go to each gateway. The last of four gets too few requests to be leased anything. */
const unevenShares: Readonly<Record<number, readonly number[]>> = { 2: [90, 10], 4: [60, 25, 14, 1] };

export const fleetSizes = Object.keys(unevenShares).map(Number);

export const vendorCase = "sms-vendor";

/** The run ends this long after the last full second: in the middle of a window, when the window has long been full. */
const restMs = 600;
/** The most outstanding requests per policy. */
const mostOutstanding = 100;
const vendorSecondsEach = 10;
const progressMs = 10_000;

export interface FleetRun {
  readonly gateways: number;
  readonly accounts: readonly (Account & { readonly measured: Measured })[];
  readonly facts: readonly (Fact & { readonly of: string })[];
}

export interface Plan {
  readonly gateways: number;
  readonly seconds: number;
  readonly measured: readonly Measured[];
  readonly playsVendor: boolean;
  progress(line: string): void;
  /** Returns whether the run must end at once. */
  stopped(): boolean;
}

export async function runFleet(plan: Plan): Promise<FleetRun> {
  const { accounts, facts } = plan.measured.length === 0 ? { accounts: [], facts: [] } : await measure(plan);
  const vendorFacts = plan.playsVendor && !plan.stopped() ? await caseOfTheVendor(plan) : [];
  return { gateways: plan.gateways, accounts, facts: [...facts, ...vendorFacts] };
}

async function measure({ gateways, seconds, measured, progress, stopped }: Plan): Promise<Omit<FleetRun, "gateways">> {
  await using stack = new AsyncDisposableStack();
  const system = await System.start({ gateways, redis: true });
  stack.defer(() => system.stop());
  for (const each of measured) await system.put(documentOf(each));
  await warmUp(system);

  const redisUrl = system.redis?.url as string;
  const clockBefore = await readRedisClock(redisUrl);
  const loads = measured.map((each) => {
    const urls = system.gateways.map(({ url }) => `${url}/${each.name}`);
    const load = new Load(urls, overload * perSecond(each), ["none"]);
    load.mostOutstanding = mostOutstanding;
    return load;
  });
  stack.defer(async () => {
    await Promise.all(loads.map((load) => load.stop()));
  });
  // The load starts at a full second, so that no window is only partly under load.
  await sleep(1000 - (nowByRedis(clockBefore) % 1000));
  const beganMs = performance.now();
  for (const load of loads) load.start();
  const unevenFromMs = beganMs + Math.round(seconds / 2) * 1000;
  let reportedMs = beganMs;
  while (performance.now() < beganMs + seconds * 1000 + restMs && !stopped()) {
    await sleep(10);
    const nowMs = performance.now();
    if (nowMs >= unevenFromMs) for (const load of loads) load.turns = unevenTurns(gateways);
    if (nowMs - reportedMs < progressMs) continue;
    reportedMs = nowMs;
    progress(inProgress(loads, (nowMs - beganMs) / 1000, seconds));
  }
  const endedMs = performance.now();
  await Promise.all(loads.map((load) => load.stop()));
  const clock = between(clockBefore, await readRedisClock(redisUrl));

  const accounts = measured.map((each, i) => ({
    measured: each,
    ...accountOf(each, (loads[i] as Load).served, clock, { fromMs: beganMs, unevenFromMs, toMs: endedMs }),
  }));
  const facts: (Fact & { of: string })[] = accounts.flatMap((account) =>
    account.facts.map((each) => ({ of: account.measured.name, ...each })),
  );
  facts.push({ of: "all", ...atMost("decided without Redis", 0, (await countsOf(system.gateways)).withoutRedis) });
  facts.push({ of: "all", ...atMost("doubt about Redis' clock", 2, clock.doubtMs, " ms") });
  return { accounts, facts };
}

/** Plays worked case 2 with a fleet of its own, whose only upstream is the vendor. */
async function caseOfTheVendor({ gateways, progress }: Plan): Promise<FleetRun["facts"]> {
  await using stack = new AsyncDisposableStack();
  const vendor = await Vendor.start();
  stack.defer(() => vendor.stop());
  const system = await System.start({ gateways, redis: true, env: { SLUICE_UPSTREAM: vendor.url } });
  stack.defer(() => system.stop());
  await warmUp(system);
  progress(`worked case 2: ${vendorSecondsEach} s at 800/s, then as long at 1,200/s`);
  const seen = await playVendor(system, vendor, vendorPolicies, vendorSecondsEach, 98);
  return [...seen].flatMap(([{ name }, facts]) => facts.map((each) => ({ of: name, ...each })));
}

/** Makes connections and compiles code before the measurement, by requests that match no policy. */
async function warmUp(system: System): Promise<void> {
  const load = new Load(
    system.gateways.map(({ url }) => `${url}/beside`),
    1000,
    ["none"],
  );
  load.mostOutstanding = mostOutstanding;
  load.start();
  await sleep(2000);
  await load.stop();
}

function nowByRedis({ aheadMs }: RedisClock): number {
  return performance.now() + aheadMs;
}

/** @returns gateways in the order in which they get requests: each has its share of a hundred, spread as evenly as possible */
export function unevenTurns(gateways: number): readonly number[] {
  const shares = unevenShares[gateways] as readonly number[];
  const due = shares.map(() => 0);
  return Array.from({ length: 100 }, () => {
    for (const [gateway, share] of shares.entries()) (due[gateway] as number) += share;
    const next = due.indexOf(Math.max(...due));
    (due[next] as number) -= 100;
    return next;
  });
}

function inProgress(loads: readonly Load[], seconds: number, of: number): string {
  const served = loads.flatMap((load) => load.served.length).reduce((sum, count) => sum + count, 0);
  return `${Math.round(seconds)} of ${of} s, ${served.toLocaleString("en")} requests answered`;
}
