// The worked cases that are about rates, asked by each client of a fleet of two gateways by the machine's own clock: one request a second for the
// whole fleet (1), an SMS vendor that takes 400 a second (2), and decisions per second by 1, 10 and 100 callers (9). ../../clients/worked-cases.test.ts
// has those with exact numbers.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { callerToken } from "../../clients/caller-tokens.ts";
import { clients } from "../../clients/clients.ts";
import type { Driver, Result } from "../../clients/driver.ts";
import { Drivers } from "../../clients/drivers.ts";
import { ask } from "../../fixtures/clients/requests.ts";
import { type Admission, mostWithin } from "../../fixtures/measures/bound.ts";
import { System } from "../../fixtures/servers/system.ts";
import { until } from "../../fixtures/until.ts";

const takesPerSecond = 400;
const burst = 40;
/** Calls of a driver that wait at once: those of both are more than leave within `maxWait`. */
const mostAtOnce = 60;
const cluster = { scope: "cluster", onStoreFailure: "deny", match: { paths: ["/elsewhere"] }, key: ["header:x-user"] };
/** Of its policies, whose names are in lower case. */
const nameOf = (language: string) => language.toLowerCase().replaceAll(/[^a-z]+/g, "-");
/** Cases 2 and 9 have a policy for each client, so that the gateways' metrics have their own numbers. */
const policies = clients.flatMap(({ language }) => {
  const own = nameOf(language);
  return [
    { name: `one-${own}`, limits: [{ algorithm: "token-bucket", quota: 1, window: "1s", burst: 1 }] },
    // In any second, this policy lets 400 through: a burst, and what refills beside it.
    {
      name: `vendor-${own}`,
      limits: [{ algorithm: "token-bucket", quota: takesPerSecond - burst, window: "1s", burst }],
    },
    // In any second, this policy lets 400 through: departures are 2.5 ms apart.
    {
      name: `shaped-${own}`,
      limits: [{ algorithm: "leaky-bucket", quota: takesPerSecond, window: "1s", burst }],
    },
    { name: `many-${own}`, limits: [{ algorithm: "fixed-window", quota: 1_000_000_000, window: "366d" }] },
    { name: `line-${own}`, limits: [{ algorithm: "token-bucket", quota: 100, window: "1s", burst: 1 }] },
  ];
});

let system: System;
let token: string;
beforeAll(async () => {
  system = await System.start({ gateways: 2, redis: true });
  token = await callerToken(system, "default");
  for (const policy of policies) await system.put({ ...cluster, ...policy });
});
afterAll(() => system?.stop());

/** The metric of both gateways. */
async function decisions(policy: string, result: string): Promise<number> {
  const counts = await Promise.all(
    system.gateways.map(async ({ privateUrl }) => {
      const { body } = await ask(`${privateUrl}/sluice/metrics`);
      const line = new RegExp(
        `^sluice_decisions_total\\{app="default",policy="${policy}",result="${result}"\\} (\\S+)$`,
        "m",
      );
      return Number(line.exec(body)?.[1] ?? 0);
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

interface Offered {
  readonly admitted: readonly Admission[];
  readonly calls: number;
  readonly seconds: number;
  readonly sources: readonly unknown[];
}

/**
 * Offers calls at these rates, half by each driver. A driver answers when all calls of a tick are decided, so each was decided between the
 * tick's order and its answer.
 */
async function offer(
  pair: readonly Driver[],
  call: object,
  rates: readonly number[],
  secondsEach: number,
): Promise<Offered> {
  const admitted: Admission[] = [];
  const sources = new Set<unknown>();
  let calls = 0;
  const beganMs = performance.now();
  const seconds = () => (performance.now() - beganMs) / 1_000;
  const due = () =>
    rates.reduce((sum, rate, i) => sum + rate * Math.min(secondsEach, Math.max(0, seconds() - i * secondsEach)), 0);
  const one = async (driver: Driver) => {
    let made = 0;
    while (seconds() < rates.length * secondsEach) {
      await sleep(20);
      const count = Math.min(mostAtOnce, Math.floor(due() / pair.length) - made);
      if (count < 1) continue;
      // What a busy machine did not offer in time is not offered later.
      made = Math.floor(due() / pair.length);
      calls += count;
      const sentAtMs = performance.now();
      const results: Result[] = await driver.do(...Array(count).fill(call));
      const answeredAtMs = performance.now();
      for (const { allowed, source } of results) {
        sources.add(source);
        if (allowed === true) admitted.push({ sentAtMs, answeredAtMs });
      }
    }
  };
  await Promise.all(pair.map(one));
  return { admitted, calls, seconds: seconds(), sources: [...sources] };
}

describe.each(clients)("the client in $language", ({ language, driver }) => {
  const key = [language];
  const own = nameOf(language);
  let drivers: Drivers;
  beforeAll(async () => {
    drivers = new Drivers(await driver());
  });
  afterEach(() => drivers.putBack());
  afterAll(() => drivers?.stop());

  /** @returns a driver whose client asks this gateway */
  const driverAt = (gateway: number): Promise<Driver> =>
    drivers.take({ url: system.gateways[gateway]?.privateUrl, token, deadlineMs: 20_000, onFailure: "deny" });

  it("case 1: callers at two gateways together are allowed 1 request/s for userA_APIX", async () => {
    const pair = [await driverAt(0), await driverAt(1)];
    const call = { call: "check", policy: `one-${own}`, key: ["userA_APIX"] };
    const beganMs = performance.now();
    const loads = await Promise.all(pair.map((one) => one.load({ callers: 2, seconds: 4.2, call })));
    const seconds = (performance.now() - beganMs) / 1_000;
    const sum = (of: (load: (typeof loads)[number]) => number) => loads.reduce((all, load) => all + of(load), 0);
    expect([sum(({ errors }) => errors), sum(({ failures }) => failures)]).toEqual([0, 0]);
    // The bucket begins with one unit.
    expect(sum(({ allowed }) => allowed)).toBeLessThanOrEqual(1 + Math.floor(seconds));
    expect(sum(({ allowed }) => allowed)).toBeGreaterThanOrEqual(3);
  });

  it("case 2: of 800 and 1,200 checks a second, no more than 400 are allowed in any second", async () => {
    const pair = [await driverAt(0), await driverAt(1)];
    const call = { call: "check", policy: `vendor-${own}`, key };
    const { admitted, calls, seconds, sources } = await offer(pair, call, [800, 1_200], 2);
    expect(sources.filter((source) => source !== "gateway" && source !== "memory")).toEqual([]);
    expect(calls).toBeGreaterThan(1.5 * admitted.length);
    expect(mostWithin(admitted, 1_000)).toBeLessThanOrEqual(takesPerSecond);
    expect(admitted.length).toBeLessThanOrEqual(burst + (takesPerSecond - burst) * seconds);
    expect(admitted.length).toBeGreaterThan(0.5 * (takesPerSecond - burst) * seconds);
  });

  it("case 2: of 800 and 1,200 callers a second who wait for their turn, none who was admitted is lost, and departures keep the rate", async () => {
    const pair = [await driverAt(0), await driverAt(1)];
    const policy = `shaped-${own}`;
    // Runtimes compile what is hot.
    const warm = { call: "acquire", policy: `many-${own}`, key, maxWaitMs: 100 };
    await Promise.all(pair.map((one) => one.load({ callers: mostAtOnce, seconds: 1.5, call: warm })));
    const { admitted, calls, seconds, sources } = await offer(
      pair,
      { call: "acquire", policy, key, maxWaitMs: 100 },
      [800, 1_200],
      2,
    );
    expect(sources).toEqual(["gateway"]);
    expect(calls).toBeGreaterThan(1.5 * admitted.length);
    // Workers write their metrics a little later.
    await until("the gateways have counted as many as were told that it is their turn", async () => {
      return (await decisions(policy, "allowed")) >= admitted.length;
    });
    await sleep(1_000);
    expect(await decisions(policy, "allowed")).toBe(admitted.length);
    expect(mostWithin(admitted, 1_000)).toBeLessThanOrEqual(takesPerSecond);
    expect(admitted.length).toBeLessThanOrEqual(1 + takesPerSecond * seconds);
    expect(admitted.length).toBeGreaterThan(0.5 * takesPerSecond * seconds);
  });

  it.each([
    [1, 250],
    [10, 2_000],
    [100, 5_000],
  ])("case 9: %i callers at once have more than %i decisions a second in scope cluster", async (callers, least) => {
    const asking = await driverAt(0);
    const load = { callers, call: { call: "check", policy: `many-${own}`, key }, keys: 100 };
    // Runtimes compile what is hot.
    await asking.load({ ...load, seconds: 0.5 });
    const perSecond: number[] = [];
    // A machine that is busy for a moment is not busy each time.
    for (let i = 0; i < 8 && Math.max(0, ...perSecond) <= least; i++) {
      const { allowed, calls, errors, failures, seconds } = await asking.load({ ...load, seconds: 0.5 });
      expect([allowed, errors, failures]).toEqual([calls, 0, 0]);
      perSecond.push(calls / seconds);
    }
    expect(Math.max(...perSecond)).toBeGreaterThan(least);
  });

  it("200 callers in line at 100/s, half of whom are killed: the others have the turns of the killed", async () => {
    const [killed, other] = [await driverAt(0), await driverAt(0)];
    const policy = `line-${own}`;
    for (const one of [killed, other]) await one.do({ call: "check", policy: `many-${own}`, key });
    // A caller of each comes every two milliseconds, so that they stand in line by turns.
    const crowd = Array.from({ length: 100 }, (_, i) => ({
      call: "acquire",
      policy,
      key,
      maxWaitMs: 30_000,
      afterMs: 2 * i,
    }));
    const beganMs = performance.now();
    const ofKilled = killed.do(...crowd).catch(() => "killed");
    const ofOther = other.do(...crowd);
    await sleep(250);
    killed.child.kill("SIGKILL");
    expect(await ofKilled).toBe("killed");
    const killedAfterSeconds = (performance.now() - beganMs) / 1_000;
    const results = await ofOther;
    const seconds = (performance.now() - beganMs) / 1_000;
    expect(results.filter(({ allowed, source }) => allowed !== true || source !== "gateway")).toEqual([]);
    expect(seconds).toBeGreaterThanOrEqual(0.98);
    // Those that are gone had turns until they were killed, and no others: with theirs, there would be 200.
    await sleep(1_000);
    const turns = await decisions(policy, "allowed");
    expect(turns).toBeGreaterThanOrEqual(100);
    expect(turns).toBeLessThanOrEqual(100 + 100 * killedAfterSeconds + 10);
  });
});
