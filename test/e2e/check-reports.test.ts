// Reports: a caller says what it has used already, and all of it is charged, beyond what is left too. The clock of nginx and Redis stands
// still between steps, so that the numbers are exact.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerOf, check, post } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { fullHour } from "../fixtures/documents/worked-cases.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";
import { until } from "../fixtures/until.ts";

const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const scopes = ["node", "cluster"] as const;
const places = {
  node: { scope: "node" },
  exact: { scope: "cluster" },
  leased: { scope: "cluster", consistency: "leased" },
} as const;
const limits = {
  "token-bucket": [{ algorithm: "token-bucket", quota: 2, window: "1s", burst: 7 }],
  "slow-start": [{ algorithm: "token-bucket", quota: 2, window: "1s", burst: 7, initial: 1, warmUp: "1m" }],
  "fixed-window": [{ algorithm: "fixed-window", quota: 7, window: "10s" }],
  calendar: [{ algorithm: "fixed-window", quota: 7, window: "hour" }],
  "sliding-window": [{ algorithm: "sliding-window", quota: 7, window: "10s" }],
  "sliding-log": [{ algorithm: "sliding-log", quota: 7, window: "10s" }],
  "leaky-bucket": [{ algorithm: "leaky-bucket", quota: 2, window: "1s", burst: 5 }],
  several: [
    { name: "burst", algorithm: "token-bucket", quota: 2, window: "1s", burst: 5 },
    { name: "total", algorithm: "sliding-log", quota: 9, window: "10s" },
  ],
} as const;
const seven = limits["fixed-window"];
const elsewhere = { match: { paths: ["/elsewhere"] }, key: ["header:x-app"] };

const clock = new SetClock(fullHour);
let nowSeconds: number = fullHour;
let redis: RedisServer;
let gateway: LoneGateway;
beforeAll(async () => {
  redis = new RedisServer(await freePort(), clock.redisEnv);
  await redis.start();
  gateway = await LoneGateway.start({
    workers: 2,
    clock,
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "10000" },
    policies: [
      ...Object.entries(places).flatMap(([place, where]) =>
        Object.entries(limits).flatMap(([name, own]) => [
          { name: `${name}-${place}`, ...elsewhere, ...where, limits: own },
          ...(name === "leaky-bucket"
            ? []
            : [
                {
                  name: `${name}-${place}-bytes`,
                  ...elsewhere,
                  ...where,
                  limits: own,
                  cost: { from: "response-bytes" },
                },
              ]),
        ]),
      ),
      ...scopes.flatMap((scope) => [
        {
          name: `traffic-${scope}`,
          match: { paths: [`/traffic-${scope}`] },
          key: ["header:x-app"],
          scope,
          limits: seven,
        },
        {
          name: `download-${scope}`,
          ...elsewhere,
          scope,
          limits: [{ ...seven[0], quota: 1_000 }],
          cost: { from: "response-bytes" },
        },
        { name: `shadow-${scope}`, ...elsewhere, scope, mode: "shadow", limits: seven },
        { name: `off-${scope}`, ...elsewhere, scope, mode: "off", limits: seven },
        { name: `exempt-${scope}`, ...elsewhere, scope, limits: seven, exempt: { cidrs: [], keys: [["a"]] } },
        { name: `deny-${scope}`, ...elsewhere, scope, limits: seven, onMissingKey: "deny" },
        { name: `three-each-${scope}`, ...elsewhere, scope, limits: seven, cost: 3 },
        { name: `slots-${scope}`, ...elsewhere, scope, limits: [{ algorithm: "concurrency", quota: 2 }] },
        ...["local", "allow", "deny"].map((onStoreFailure) => ({
          name: `away-${onStoreFailure}-${scope}`,
          ...elsewhere,
          scope,
          limits: [{ algorithm: "fixed-window", quota: 70, window: "366d" }],
          ...(scope === "cluster" ? { onStoreFailure } : {}),
        })),
      ]),
    ],
    bans: scopes.map((scope) => ({
      id: scope,
      app: "default",
      policy: `traffic-${scope}`,
      key: ["bad"],
      untilSeconds: fullHour + 86_400 * 9_000,
    })),
    callers: [callerOf(shop)],
  });
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
  clock.remove();
});

interface Result extends Record<string, unknown> {
  readonly allowed: boolean;
  readonly remaining: number;
  readonly retryAfter: number;
  readonly debt?: number;
}

async function one(asked: object): Promise<Result> {
  const [result] = (await check(gateway.privateUrl, shop, [asked])).results;
  return result as Result;
}
const report = (policy: string, key: string, cost?: number) => one({ policy, key: [key], cost, report: true });
const look = (policy: string, key: string) => one({ policy, key: [key], cost: 0 });
const send = async (body: object) => JSON.parse((await post(gateway.privateUrl, shop, JSON.stringify(body))).body);
function wait(seconds: number): void {
  nowSeconds += seconds;
  clock.set(nowSeconds);
}

/** A step of one key's life: a charge, a report, or a pause in ms. */
const step = fc.oneof(
  fc.record({ cost: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ report: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 70 })) }),
  fc.record({ pauseMs: fc.integer({ min: 1, max: 9_000 }) }),
);
let life = 0;
const counted = ["node", "exact"];
const names = Object.keys(limits);

describe.each(counted)("a report of scope %s", (place) => {
  it.each(names)("of %s charges exactly its cost, and says what of it was beyond what was left", async (name) => {
    const policy = `${name}-${place}`;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
        life += 1;
        const key = `life-${life}`;
        for (const each of steps) {
          if ("pauseMs" in each) {
            wait(each.pauseMs / 1_000);
            continue;
          }
          const before = await look(policy, key);
          // Who looks changes nothing, however often. A worker that remembers a refusal may say an earlier time than another.
          const { allowed, remaining: left } = before;
          expect(await look(policy, key)).toMatchObject({ allowed, remaining: left });
          if ("report" in each) {
            const reported = await report(policy, key, each.report);
            const remaining = Math.max(before.remaining - each.report, 0);
            const debt = Math.max(each.report - before.remaining, 0);
            expect(reported).toMatchObject({ allowed: true, retryAfter: 0, remaining, debt });
            expect(Object.keys(reported)).toEqual([
              ...Object.keys(before).filter((field) => field !== "delay"),
              "debt",
            ]);
            const after = await look(policy, key);
            expect(after.remaining).toBe(remaining);
            if (debt > 0) expect([after.allowed, after.retryAfter > 0]).toEqual([false, true]);
          } else {
            const charged = await one({ policy, key: [key], cost: each.cost });
            // Nothing is admitted that is not there, and a refusal takes nothing.
            expect(charged.allowed).toBe(each.cost <= before.remaining);
            if (charged.allowed) expect(charged.remaining).toBe(before.remaining - each.cost);
          }
        }
      }),
      { numRuns: 25 },
    );
  });

  // A slow start begins with the first request, even if it is refused: the twin would begin later.
  it.each(names.filter((name) => name !== "leaky-bucket" && name !== "slow-start"))(
    "of %s leaves a counter as responses of as many bytes leave theirs",
    async (name) => {
      const policy = `${name}-${place}`;
      const figures = ({ limit, remaining, resetAfter, debt = 0 }: Result) => ({ limit, remaining, resetAfter, debt });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
          life += 1;
          const key = `twin-${life}`;
          for (const each of steps) {
            if ("pauseMs" in each) {
              wait(each.pauseMs / 1_000);
              continue;
            }
            const own =
              "report" in each
                ? await report(policy, key, each.report)
                : await one({ policy, key: [key], cost: each.cost });
            if (!own.allowed) continue;
            const units = "report" in each ? each.report : each.cost;
            expect(figures(own)).toEqual(figures(await report(`${policy}-bytes`, key, units)));
          }
        }),
        { numRuns: 15 },
      );
    },
  );

  it.each(names)("of %s is paid by time: nothing is admitted before, and something then", async (name) => {
    const policy = `${name}-${place}`;
    for (const [i, units] of [8, 15, 43, 100].entries()) {
      const key = `paid-${i}`;
      const { debt } = await report(policy, key, units);
      expect(debt).toBeGreaterThan(0);
      const { retryAfter } = await look(policy, key);
      // The seconds are rounded up: a second before, it is not paid yet.
      for (const seconds of [(retryAfter - 1) / 2, (retryAfter - 1) / 2]) {
        wait(seconds);
        expect(await look(policy, key)).toMatchObject({ allowed: false, remaining: 0 });
        expect(await one({ policy, key: [key] })).toMatchObject({ allowed: false, remaining: 0 });
      }
      expect((await look(policy, key)).retryAfter).toBe(1);
      wait(1);
      expect((await look(policy, key)).allowed).toBe(true);
      expect((await one({ policy, key: [key] })).allowed).toBe(true);
    }
  });

  it("of a bucket is paid as it refills, and of a window by the windows after it", async () => {
    // Two a second: of 15 units, 7 were there, and 8 are owed for four seconds.
    expect(await report(`token-bucket-${place}`, "exact", 15)).toMatchObject({ remaining: 0, debt: 8 });
    wait(4);
    expect(await look(`token-bucket-${place}`, "exact")).toMatchObject({ allowed: false, remaining: 0, retryAfter: 1 });
    wait(1.5);
    expect(await look(`token-bucket-${place}`, "exact")).toMatchObject({ allowed: true, remaining: 3 });
    wait(10 - (nowSeconds % 10));
    // Seven in this window, seven in the next, and six of the one after that.
    expect(await report(`fixed-window-${place}`, "exact", 20)).toMatchObject({ remaining: 0, debt: 13 });
    wait(19);
    expect(await look(`fixed-window-${place}`, "exact")).toMatchObject({ allowed: false, retryAfter: 1 });
    wait(1);
    expect(await look(`fixed-window-${place}`, "exact")).toMatchObject({ allowed: true, remaining: 1 });
    // Another report is owed after the first.
    expect(await report(`fixed-window-${place}`, "exact", 9)).toMatchObject({ remaining: 0, debt: 8 });
    wait(10);
    expect(await look(`fixed-window-${place}`, "exact")).toMatchObject({ allowed: false, retryAfter: 10 });
    wait(10);
    expect(await look(`fixed-window-${place}`, "exact")).toMatchObject({ allowed: true, remaining: 6 });
  });
});

describe("a report of a leased policy", () => {
  const policy = "fixed-window-leased";

  it("is charged in Redis, beside what gateways have on lease", async () => {
    wait(20 - (nowSeconds % 10));
    expect(await report(policy, "leased", 3)).toMatchObject({ allowed: true, remaining: 4, debt: 0 });
    expect(await report(policy, "leased", 9)).toMatchObject({ allowed: true, remaining: 0, debt: 5 });
    expect(await one({ policy, key: ["leased"] })).toMatchObject({ allowed: false });
    wait(10);
    expect(await report(policy, "leased", 1)).toMatchObject({ remaining: 1, debt: 0 });
  });

  it("and requests never take more together than the limit and what was reported beyond it", async () => {
    wait(20 - (nowSeconds % 10));
    const checks = await Promise.all(Array.from({ length: 30 }, () => one({ policy, key: ["mixed"] })));
    const reported = await report(policy, "mixed", 5);
    const admitted = checks.filter(({ allowed }) => allowed).length;
    expect(admitted).toBeLessThanOrEqual(7);
    expect(reported.debt).toBeGreaterThanOrEqual(admitted + 5 - 7);
    const later = await Promise.all(Array.from({ length: 30 }, () => one({ policy, key: ["mixed"] })));
    expect(admitted + later.filter(({ allowed }) => allowed).length).toBeLessThanOrEqual(7);
  });

  it.each(names)("of %s is charged exactly as one of an exact policy, where nothing is on lease", async (name) => {
    for (const [i, units] of [1, 4, 9, 30].entries()) {
      const figures = ({ policy: _, ...own }: Result) => own;
      const key = `beside-${i}`;
      for (let again = 0; again < 2; again++) {
        expect(figures(await report(`${name}-leased`, key, units))).toEqual(
          figures(await report(`${name}-exact`, key, units)),
        );
      }
    }
  });
});

describe.each(scopes)("a report of scope %s", (scope) => {
  const policy = `traffic-${scope}`;

  it("is charged once, however many come at once, and whoever charges meanwhile", async () => {
    const key = "crowd";
    const reports = await Promise.all(Array.from({ length: 40 }, () => report(`away-local-${scope}`, key, 3)));
    const debts = reports.reduce((sum, { debt = 0 }) => sum + debt, 0);
    // Seventy of the hundred and twenty were there.
    expect(debts).toBe(50);
    expect(await look(`away-local-${scope}`, key)).toMatchObject({ allowed: false, remaining: 0 });
  });

  it("refuses the gateway's own requests until it is paid", async () => {
    const status = async () =>
      (await ask(`${gateway.url}/traffic-${scope}`, { headers: { "x-app": "requests" } })).status;
    wait(20 - (nowSeconds % 10));
    expect(await status()).not.toBe(429);
    expect(await report(policy, "requests", 13)).toMatchObject({ debt: 7 });
    expect(await status()).toBe(429);
    wait(10);
    expect(await status()).toBe(429);
    wait(10);
    expect(await status()).not.toBe(429);
    expect((await look(policy, "requests")).remaining).toBe(6);
  });

  it("charges the policy's cost if it says none", async () => {
    expect(await report(`three-each-${scope}`, "own")).toMatchObject({ remaining: 4, debt: 0 });
  });

  it("charges bytes to a policy of response-bytes, which nobody else can be asked for", async () => {
    const download = `download-${scope}`;
    expect(await report(download, "bytes", 700)).toMatchObject({
      allowed: true,
      limit: 1_000,
      remaining: 300,
      debt: 0,
    });
    expect(await report(download, "bytes", 5_000_000)).toMatchObject({ remaining: 0, debt: 4_999_700 });
    expect(await send({ checks: [{ policy: download, key: ["bytes"], report: true }] })).toMatchObject({
      code: "invalid-request",
      errors: [{ path: "checks[0].cost" }],
    });
    expect(await send({ checks: [{ policy: download, key: ["bytes"], cost: 1 }] })).toMatchObject({
      code: "policy-not-askable",
    });
  });

  it("charges the same key together, and all get the same answer", async () => {
    wait(20 - (nowSeconds % 10));
    const asked = { policy, key: ["together"], report: true };
    const { allowed, results } = await send({
      checks: [
        { ...asked, cost: 4 },
        { ...asked, cost: 5 },
        { ...asked, key: ["beside"] },
      ],
    });
    expect(allowed).toBe(true);
    expect(results).toMatchObject([
      { remaining: 0, debt: 2 },
      { remaining: 0, debt: 2 },
      { remaining: 6, debt: 0 },
    ]);
    const each = await send({
      mode: "each",
      checks: [
        { ...asked, key: ["each"], cost: 4 },
        { policy, key: ["each"], cost: 4 },
      ],
    });
    expect(each.results[0]).toMatchObject({ allowed: true });
    expect((await look(policy, "each")).remaining).toBe(each.results[1].allowed ? 0 : 3);
  });

  it("charges nothing where a limit does not decide, and nothing of a request with a banned key", async () => {
    expect(await report(`off-${scope}`, "a", 3)).toEqual({ policy: `off-${scope}`, allowed: true, reason: "off" });
    expect(await report(`exempt-${scope}`, "a", 3)).toMatchObject({ allowed: true, reason: "exempt" });
    expect(await report(`shadow-${scope}`, "a", 9)).toMatchObject({ allowed: true, reason: "shadow" });
    expect(await report(`deny-${scope}`, "", 3)).toMatchObject({ allowed: false, reason: "key-missing" });
    expect(await report(policy, "bad", 3)).toEqual({ policy, allowed: false, reason: "banned" });
    wait(20 - (nowSeconds % 10));
    const both = [
      { policy, key: ["good"], cost: 9, report: true },
      { policy, key: ["bad"], cost: 9, report: true },
    ];
    const answer = await send({ checks: both });
    expect(answer).toMatchObject({
      allowed: false,
      results: [
        { allowed: true, remaining: 7, retryAfter: 0, debt: 0 },
        { allowed: false, reason: "banned" },
      ],
    });
    expect((await look(policy, "good")).remaining).toBe(7);
    expect(await send({ mode: "each", checks: both })).toMatchObject({ results: [{ remaining: 0, debt: 2 }, {}] });
    expect((await look(policy, "good")).remaining).toBe(0);
  });

  it("is refused where it makes no sense, with its place, and charges nothing", async () => {
    const good = { policy, key: ["wrong"], report: true };
    const errorsOf = async (checks: object[], more = {}) => {
      const problem = await send({ ...more, checks });
      expect(problem).toMatchObject({ status: 400, code: "invalid-request" });
      return problem.errors;
    };
    expect(await errorsOf([{ ...good, cost: 0 }])).toEqual([
      { path: "checks[0].cost", expected: "1 or more: what was used", got: "0" },
    ]);
    expect(await errorsOf([{ ...good, peek: true }])).toMatchObject([{ path: "checks[0].peek" }]);
    expect(await errorsOf([{ ...good, maxWait: "1s" }])).toMatchObject([{ path: "checks[0].maxWait" }]);
    expect(await errorsOf([{ ...good, report: "yes" }])).toEqual([
      { path: "checks[0].report", expected: "true or false", got: '"yes"' },
    ]);
    for (const other of [{}, { peek: true }, { report: false }]) {
      expect(await errorsOf([good, { policy, key: ["wrong"], ...other }])).toEqual([
        { path: "checks[1].report", expected: 'true, as in the first check; or the mode "each"', got: "false" },
      ]);
    }
    expect(await send({ checks: [{ policy: `slots-${scope}`, key: ["a"], report: true }] })).toMatchObject({
      code: "policy-not-askable",
    });
    expect((await look(policy, "wrong")).remaining).toBe(7);
  });
});

it("a hundred reports of one request share round trips to Redis", async () => {
  const counted = async () => {
    const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
    const read = (name: string) => Number(new RegExp(`^sluice_redis_${name}_total (\\d+)`, "m").exec(body)?.[1] ?? 0);
    return { batches: read("batches"), counters: read("batched_counters") };
  };
  const before = await counted();
  const { results } = await send({
    checks: Array.from({ length: 100 }, (_, i) => ({
      policy: "traffic-cluster",
      key: [`batch-${i}`],
      cost: 9,
      report: true,
    })),
  });
  expect(results.every(({ debt }: Result) => debt === 2)).toBe(true);
  // A counter and a debt each.
  await until("the worker has counted them", async () => (await counted()).counters >= before.counters + 200);
  expect((await counted()).batches - before.batches).toBeLessThan(10);
});

describe("a report while Redis is away", () => {
  it("is charged to this node's share and later in Redis, or obeys onStoreFailure", async () => {
    const [local, allow, deny] = ["local", "allow", "deny"].map((name) => `away-${name}-cluster`) as [
      string,
      string,
      string,
    ];
    expect(await report(local, "away", 10)).toMatchObject({ remaining: 60 });
    await redis.stop();
    expect(await report(local, "away", 90)).toMatchObject({ allowed: true, remaining: 0, debt: 20 });
    expect(await one({ policy: local, key: ["away"] })).toMatchObject({ allowed: false });
    expect(await report(allow, "away", 90)).toEqual({ policy: allow, allowed: true, reason: "undecided" });
    expect(await report(deny, "away", 90)).toEqual({ policy: deny, allowed: false, reason: "undecided" });
    await redis.start();
    // The server that comes back has counted nothing: what was reported meanwhile is all that it is charged.
    await until("Redis is charged what was reported", async () => !(await look(local, "away")).allowed);
    await until("Redis is charged what was allowed", async () => !(await look(allow, "away")).allowed);
    expect(await look(deny, "away")).toMatchObject({ allowed: true, remaining: 70 });
    expect(await report(local, "away", 1)).toMatchObject({ remaining: 0, debt: 1 });
  });
});
