// The worked cases that have exact numbers, asked by each client of a fleet of two gateways with Redis: several units at once, costs that are none, a
// bucket of another app, crowds, and callers that are killed. ../e2e/measured/clients.test.ts has those that are about rates.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { SluiceClient } from "../../clients/typescript/src/index.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import { callerToken } from "./caller-tokens.ts";
import { clients } from "./clients.ts";
import type { Driver, Result } from "./driver.ts";
import { Drivers } from "./drivers.ts";

const key = ["header:x-user"];
const cluster = { scope: "cluster", match: { paths: ["/elsewhere"] }, key };
const total = (quota: number) => [{ algorithm: "fixed-window", quota, window: "366d" }];
/** Callers that are killed must all be gone before their window ends. */
const windowMs = 6_000;
const ttlMs = 3_000;
const policies = [
  { name: "seven", limits: [{ algorithm: "token-bucket", quota: 1, window: "1d", burst: 7 }] },
  { name: "vault", limits: total(10) },
  { name: "shared", limits: total(10), sharedWith: ["bank"] },
  { name: "hundred", limits: total(100) },
  { name: "ten", limits: total(10) },
  { name: "turns", limits: [{ algorithm: "fixed-window", quota: 100, window: `${windowMs / 1_000}s` }] },
  { name: "paced", limits: [{ algorithm: "token-bucket", quota: 1, window: "1s", burst: 1 }] },
  { name: "seats", limits: [{ algorithm: "concurrency", quota: 3, ttl: "1h" }] },
  { name: "slot", limits: [{ algorithm: "concurrency", quota: 1, ttl: `${ttlMs / 1_000}s` }] },
];

let system: System;
const tokens = new Map<string, string>();
beforeAll(async () => {
  // A busy machine may be slow with 1,000 checks at once, and Redis must decide each of them.
  system = await System.start({ gateways: 2, redis: true, env: { SLUICE_REDIS_DEADLINE_MS: "10000" } });
  await system.api("PUT", "/apps/bank", { realm: {} });
  for (const app of ["default", "bank"]) tokens.set(app, await callerToken(system, app));
  for (const policy of policies) await system.put({ ...cluster, ...policy });
});
afterAll(() => system?.stop());

/** However busy the machine is, a gateway that is there answers by then; and nothing is decided by a failure unseen. */
const patient = { deadlineMs: 30_000, onFailure: "deny" };

interface Asking {
  readonly app?: string;
  readonly rememberRefusalsMs?: number;
}

const allowedIn = (results: readonly Result[]) => results.filter(({ allowed }) => allowed === true).length;
/** None was decided by a failure. */
const sourcesIn = (results: readonly Result[]) => [...new Set(results.map(({ source }) => source))].sort();

describe.each(clients)("the client in $language", ({ language, driver }) => {
  const user = [language];
  let drivers: Drivers;
  beforeAll(async () => {
    drivers = new Drivers(await driver());
  });
  afterEach(() => drivers.putBack());
  afterAll(() => drivers?.stop());

  /** @returns a driver whose client asks this gateway */
  const driverAt = (gateway: number, { app = "default", ...options }: Asking = {}): Promise<Driver> =>
    drivers.take({ url: system.gateways[gateway]?.privateUrl, token: tokens.get(app), ...patient, ...options });

  it("case 7: three and then four units at once are all that a bucket of 7 holds", async () => {
    const caller = await driverAt(0);
    const asked = async (cost: number) => (await caller.do({ call: "check", policy: "seven", key: user, cost }))[0];
    expect(await asked(3)).toMatchObject({ allowed: true, limit: 7, remaining: 4, source: "gateway" });
    // Beyond what the bucket ever holds: waiting cannot help.
    expect(await asked(8)).toMatchObject({ allowed: false, remaining: 4, retryAfter: null, source: "gateway" });
    expect(await asked(5)).toMatchObject({ allowed: false, remaining: 4, source: "gateway" });
    // Less than what was refused, so memory does not refuse it.
    expect(await asked(4)).toMatchObject({ allowed: true, remaining: 0, source: "gateway" });
    expect(await asked(1)).toMatchObject({ allowed: false, remaining: 0, source: "gateway" });
  });

  // A fraction cannot be written in Go and Java, whose costs are whole numbers.
  const fractions = ["Go", "Java"].includes(language) ? [] : [1.5];
  it.each([-1, 2_147_483_649, ...fractions])(
    "case 7: a cost of %d is an error with code and place, also beside others, and charges nothing",
    async (cost) => {
      const caller = await driverAt(0);
      const mine = [`${language} ${cost}`];
      const wrong = { policy: "ten", key: mine, cost };
      const right = { policy: "ten", key: mine };
      const results = await caller.do(
        { call: "check", ...wrong },
        { call: "checkAll", checks: [right, wrong] },
        { call: "peek", ...wrong },
        { call: "report", ...wrong },
        { call: "acquire", ...wrong, maxWaitMs: 100 },
        { call: "hold", policy: "slot", key: mine, slots: cost, as: "none" },
      );
      const mistakeAt = (path: string) => ({
        error: expect.objectContaining({
          code: "invalid-request",
          status: 400,
          errors: [expect.objectContaining({ path })],
        }),
      });
      expect(results).toEqual(["cost", "checks[1].cost", "cost", "cost", "cost", "slots"].map(mistakeAt));
      // The others of its batch are asked again, and charged once.
      const beside = await caller.do(...[right, right, wrong, right].map((check) => ({ call: "check", ...check })));
      expect(beside.map((result) => result.error?.code ?? result.allowed)).toEqual([
        true,
        true,
        "invalid-request",
        true,
      ]);
      expect((await caller.do({ call: "peek", ...right }))[0]).toMatchObject({ remaining: 7 });
      expect((await caller.do({ call: "peek", policy: "slot", key: mine }))[0]).toMatchObject({ remaining: 1 });
    },
  );

  it("a cost of 0 looks at what the policy's own cost would hear, and charges nothing; nobody waits for it, and it is no report", async () => {
    const caller = await driverAt(0);
    const mine = { policy: "ten", key: [`${language} looks`] };
    const all = await caller.do(
      { call: "check", ...mine, cost: 0 },
      { call: "peek", ...mine, cost: 0 },
      { call: "checkAll", checks: [mine, { ...mine, cost: 0 }] },
    );
    expect(all).toMatchObject([
      { allowed: true, source: "gateway" },
      { allowed: true, source: "gateway" },
      { allowed: true, results: [{ remaining: 9 }, { allowed: true }] },
    ]);
    const refused = await caller.do(
      { call: "acquire", ...mine, cost: 0, maxWaitMs: 100 },
      { call: "report", ...mine, cost: 0 },
    );
    const error = expect.objectContaining({ code: "invalid-request", status: 400 });
    expect(refused).toEqual([{ error }, { error }]);
    expect(await caller.do({ call: "check", ...mine, cost: 9 })).toMatchObject([{ allowed: true, remaining: 0 }]);
    // The refusal comes from the gateway each time.
    for (let i = 0; i < 2; i++) {
      const looked = await caller.do({ call: "check", ...mine, cost: 0 });
      expect(looked).toMatchObject([{ allowed: false, remaining: 0, source: "gateway" }]);
    }
  });

  it("a report is charged once, also beyond what is left, and says how much beyond", async () => {
    const caller = await driverAt(0, { rememberRefusalsMs: 3_600_000 });
    const mine = { policy: "vault", key: [`${language} reports`] };
    const reported = async (cost: number) => (await caller.do({ call: "report", ...mine, cost }))[0];
    expect(await reported(4)).toMatchObject({ allowed: true, limit: 10, remaining: 6, retryAfter: 0, debt: 0 });
    expect(await reported(9)).toMatchObject({ allowed: true, limit: 10, remaining: 0, retryAfter: 0, debt: 3 });
    expect(await caller.do({ call: "check", ...mine })).toMatchObject([{ allowed: false, source: "gateway" }]);
    // The refusal stays in memory, and a report is no question to it.
    expect(await reported(2)).toMatchObject({ allowed: true, remaining: 0, debt: 2, source: "gateway" });
    expect(await caller.do({ call: "check", ...mine })).toMatchObject([{ allowed: false, source: "memory" }]);
  });

  it("a call that waits says how long it did", async () => {
    const caller = await driverAt(0);
    const mine = { policy: "paced", key: user };
    const both = await caller.do({ call: "acquire", ...mine, maxWaitMs: 20_000 });
    both.push(...(await caller.do({ call: "acquire", ...mine, maxWaitMs: 20_000 })));
    expect(both).toMatchObject([
      { allowed: true, waited: 0 },
      { allowed: true, waited: expect.any(Number) },
    ]);
    // A unit comes every second, and a busy machine comes late to what is left of it.
    expect(both[1]?.["waited"]).toBeGreaterThan(0);
    expect(both[1]?.["waited"]).toBeLessThan(20);
  });

  it("case 8: a bucket of another app is not charged, and the answer says so; one that the app shares is", async () => {
    const [owner, stranger] = [await driverAt(0), await driverAt(1, { app: "bank" })];
    const errors = [expect.objectContaining({ path: expect.stringMatching(/^(checks\[1\]\.)?policy$/) })];
    const error = { code: "policy-not-found", status: 404, detail: expect.any(String), errors };
    const foreign = { policy: "default/vault", key: user };
    const refused = await stranger.do(
      { call: "check", ...foreign },
      { call: "check", policy: "vault", key: user },
      { call: "checkAll", checks: [{ policy: "default/shared", key: user }, foreign] },
      { call: "acquire", ...foreign, maxWaitMs: 100 },
      { call: "hold", policy: "default/slot", key: user, as: "none" },
    );
    expect(refused).toEqual(Array(5).fill({ error }));
    const left = async (policy: string) => (await owner.do({ call: "peek", policy, key: user }))[0]?.["remaining"];
    expect([await left("vault"), await left("shared"), await left("slot")]).toEqual([10, 10, 1]);

    const shared = await stranger.do({ call: "check", policy: "default/shared", key: user, cost: 3 });
    expect(shared).toMatchObject([{ policy: "default/shared", allowed: true, remaining: 7, source: "gateway" }]);
    expect(await owner.do({ call: "check", policy: "shared", key: user })).toMatchObject([{ remaining: 6 }]);
  });

  it("1,000 checks at once at two gateways against a quota of 100: exactly 100 are allowed", async () => {
    const both = [await driverAt(0), await driverAt(1)];
    const crowd = Array.from({ length: 500 }, () => ({ call: "check", policy: "hundred", key: user }));
    const results = (await Promise.all(both.map((one) => one.do(...crowd)))).flat();
    expect(results.filter(({ source }) => source !== "gateway" && source !== "memory")).toEqual([]);
    expect([results.length, allowedIn(results)]).toEqual([1_000, 100]);
  });

  it("100 checks of one key at once, which share requests, against a quota of 10: exactly 10 are allowed", async () => {
    const caller = await driverAt(0, { rememberRefusalsMs: 0 });
    const results = await caller.do(...Array(100).fill({ call: "check", policy: "ten", key: user }));
    expect(sourcesIn(results)).toEqual(["gateway"]);
    expect(allowedIn(results)).toBe(10);
    const { events } = (await caller.say({ events: true })) as { events: { batch: number }[] };
    // Python's threads run one at a time: fewer of them call while a request is under way.
    expect(Math.max(...events.map(({ batch }) => batch))).toBeGreaterThan(language === "Python" ? 1 : 10);
  });

  it("200 callers in line, half of whom are killed: nobody else loses a turn, and the killed are charged nothing", async () => {
    const other = await driverAt(0);
    const untilEnd = () => windowMs - (Date.now() % windowMs);
    const key = [`${language}-in-line`];
    let results: Result[] = [];
    await until("they are killed while the window is taken", async () => {
      // A machine that is too busy for it begins again with another key.
      key[0] += "-again";
      const turn = { call: "acquire", policy: "turns", key, maxWaitMs: 30_000 };
      const killed = await driverAt(0);
      // All must stand in line while the window is taken.
      if (untilEnd() < windowMs / 2) await sleep(untilEnd() + 50);
      const before = await other.do({ call: "check", policy: "turns", key, cost: 100 });
      expect(before).toMatchObject([{ allowed: true, remaining: 0 }]);
      const crowd = Array(100).fill(turn);
      const ofKilled = killed.do(...crowd).catch(() => "killed");
      const ofOther = other.do(...crowd);
      await sleep(600);
      killed.child.kill("SIGKILL");
      expect(await ofKilled).toBe("killed");
      const inTime = untilEnd() > 500;
      results = await ofOther;
      return inTime;
    });
    // The next window has 100 units, and had one been taken for a caller that is gone, one of these would wait for another window.
    expect(sourcesIn(results)).toEqual(["gateway"]);
    expect(allowedIn(results)).toBe(100);
    expect(await other.do({ call: "peek", policy: "turns", key })).toMatchObject([{ remaining: 0 }]);
  });

  it("several slots for a shorter ttl than the limit's are renewed, and free soon after their holder is killed", async () => {
    const [holder, other] = [await driverAt(0), await driverAt(1)];
    const seats = { policy: "seats", key: user };
    const held = await holder.do({ call: "hold", ...seats, slots: 2, ttlMs, as: "kept" });
    expect(held).toMatchObject([{ allowed: true, holds: true, remaining: 1, source: "gateway" }]);
    // It is renewed every third of its ttl, so a busy machine may stop for two thirds.
    await sleep(1.5 * ttlMs);
    expect(await other.do({ call: "hold", ...seats, slots: 2, as: "early" })).toMatchObject([{ allowed: false }]);
    holder.child.kill("SIGKILL");
    await until("the holder has ended", () => !holder.isRunning);
    // With the limit's own ttl of an hour, it would wait in vain.
    const next = await other.do({ call: "hold", ...seats, slots: 2, as: "next", maxWaitMs: 20_000 });
    expect(next).toMatchObject([{ allowed: true, holds: true, waited: expect.any(Number), source: "gateway" }]);
    await other.do({ call: "release", hold: "next" });
    expect(await other.do({ call: "peek", ...seats })).toMatchObject([{ remaining: 3 }]);
  });

  it("slots whose holder is killed are free after their ttl, and held while it renews them", async () => {
    const [holder, other] = [await driverAt(0), await driverAt(1)];
    const slot = { policy: "slot", key: user };
    const held = await holder.do({ call: "hold", ...slot, as: "kept" });
    expect(held).toMatchObject([{ allowed: true, holds: true, source: "gateway" }]);
    // The holder renews it for longer than its ttl, every third of it, so a busy machine may stop for two thirds.
    await sleep(1.5 * ttlMs);
    expect(await other.do({ call: "hold", ...slot, as: "early" })).toMatchObject([{ allowed: false, holds: false }]);
    holder.child.kill("SIGKILL");
    await until("the holder has ended", () => !holder.isRunning);
    const next = await other.do({ call: "hold", ...slot, as: "next", maxWaitMs: 20_000 });
    expect(next).toMatchObject([{ allowed: true, holds: true, source: "gateway" }]);
    await other.do({ call: "release", hold: "next" });
    expect(await other.do({ call: "peek", ...slot })).toMatchObject([{ remaining: 1 }]);
  });
});

// The drivers speak JSON, which has no such numbers. Costs in Go and Java are whole numbers, so the question is TypeScript's alone.
it.each([Number.NaN, Number.POSITIVE_INFINITY])(
  "case 7: a cost of %d is an error in TypeScript, and charges nothing",
  async (cost) => {
    const sluice = new SluiceClient({
      url: system.gateways[0]?.privateUrl ?? "",
      token: tokens.get("default") ?? "",
      deadlineMs: 30_000,
    });
    const mine = [`${cost}`];
    await expect(sluice.check("ten", mine, { cost })).rejects.toMatchObject({ code: "invalid-request", status: 400 });
    expect(await sluice.peek("ten", mine)).toMatchObject({ remaining: 10, source: "gateway" });
    await sluice.close();
  },
);
