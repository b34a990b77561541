// Checks that only look: they tell what the next charge would hear, and change no counter. The clock of nginx and Redis stands still
// between steps, so that the numbers are exact.

import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { auth, type Caller, callerOf, check, post } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { elsewhere, limits, places } from "../fixtures/documents/every-limit.ts";
import { fullHour } from "../fixtures/documents/worked-cases.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";
import { until } from "../fixtures/until.ts";

const shop: Caller = { app: "default", token: "a-token-of-the-shop" };

const clock = new SetClock(fullHour);
let nowSeconds: number = fullHour;
let redis: RedisServer;
let gateway: LoneGateway;
beforeAll(async () => {
  redis = new RedisServer(await freePort(), clock.redisEnv);
  await redis.start();
  gateway = await LoneGateway.start({
    // Each worker remembers what Redis refused to it, and says so again: one says always the same.
    workers: 1,
    clock,
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "10000" },
    policies: [
      ...Object.entries(places).flatMap(([place, where]) =>
        Object.entries(limits).map(([name, own]) => ({
          name: `${name}-${place}`,
          ...elsewhere,
          ...where,
          limits: own,
        })),
      ),
      {
        name: "slots-node",
        match: { paths: ["/slots"] },
        key: ["header:x-app"],
        limits: [{ algorithm: "concurrency", quota: 2 }],
      },
      { name: "shadow", ...elsewhere, mode: "shadow", limits: limits["fixed-window"] },
      { name: "banned", ...elsewhere, limits: limits["fixed-window"] },
    ],
    bans: [{ id: "1", app: "default", policy: "banned", key: ["bad"], untilSeconds: fullHour + 86_400 }],
    callers: [callerOf(shop)],
  });
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
  clock.remove();
});

async function one(asked: object): Promise<Record<string, unknown>> {
  const [result] = (await check(gateway.privateUrl, shop, [asked])).results;
  return result as Record<string, unknown>;
}

/** A step of one key's life: a charge, or a pause in ms. */
const step = fc.oneof(
  fc.record({ cost: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ pauseMs: fc.integer({ min: 1, max: 3_000 }) }),
);
let life = 0;
const leaseIsSureMs = 30;

describe.each(Object.keys(places))("a peek of scope %s", (place) => {
  it.each(Object.keys(limits))("of %s tells what the charge after it hears, and changes nothing", async (name) => {
    const policy = `${name}-${place}`;
    // A lease ends by the machine's own time, which goes on.
    const timed = place === "leased" ? [] : ["retryAfter", "delay"];
    const decides = ["allowed", "limit", ...timed];
    const told = (result: Record<string, unknown>) =>
      [...decides, ...(place === "leased" ? [] : ["remaining", "resetAfter"])].map((field) => result[field]);
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        life += 1;
        const [looked, plain] = [[`looked-${life}`], [`plain-${life}`]];
        for (const each of steps) {
          if ("pauseMs" in each) {
            // A gateway goes by the machine's own time until when Redis will refuse.
            if (place === "leased") continue;
            nowSeconds += each.pauseMs / 1_000;
            clock.set(nowSeconds);
            continue;
          }
          const { cost } = each;
          const beganMs = performance.now();
          const peeked = await one({ policy, key: looked, cost, peek: true });
          const again = await one({ policy, key: looked, cost, peek: true });
          const charged = await one({ policy, key: looked, cost });
          // What is on lease may be lost between a peek and a charge.
          if (place === "leased" && performance.now() - beganMs > leaseIsSureMs) return;
          const beside = await one({ policy, key: plain, cost });
          expect(told(again)).toEqual(told(peeked));
          expect(told(beside)).toEqual(told(charged));
          for (const field of decides) expect(charged[field], `${field} of cost ${cost}`).toEqual(peeked[field]);
          const taken = charged["allowed"] === true ? cost : 0;
          if (name !== "several" && place !== "leased")
            expect(charged["remaining"]).toBe(Number(peeked["remaining"]) - taken);
        }
      }),
      { numRuns: 12 },
    );
  });
});

it("a cost that a leased limit never holds is refused for good, by a peek and by a charge", async () => {
  const policy = "calendar-leased";
  await one({ policy, key: ["used"], cost: 7 });
  for (const peek of [false, true]) {
    for (let i = 0; i < 3; i++)
      expect(await one({ policy, key: ["used"], cost: 8, peek })).toMatchObject({ retryAfter: null });
  }
});

describe("a peek", () => {
  it("of a policy whose slots nobody can be asked for tells how many are free", async () => {
    expect(await one({ policy: "slots-node", key: ["a"], peek: true })).toMatchObject({ allowed: true, remaining: 2 });
    expect(await one({ policy: "slots-node", key: ["a"], cost: 3, peek: true })).toMatchObject({
      allowed: false,
      retryAfter: null,
    });
  });

  it("that would be refused lets the checks beside it charge nothing", async () => {
    const policy = "fixed-window-node";
    await one({ policy, key: ["full"], cost: 7 });
    const answer = await check(gateway.privateUrl, shop, [
      { policy, key: ["beside"], cost: 2 },
      { policy, key: ["full"], peek: true },
    ]);
    expect(answer).toMatchObject({ allowed: false, results: [{ allowed: true }, { allowed: false, remaining: 0 }] });
    expect(await one({ policy, key: ["beside"], peek: true })).toMatchObject({ remaining: 7 });
  });

  it("is looked at before the checks beside it are charged", async () => {
    const policy = "fixed-window-exact";
    const answer = await check(gateway.privateUrl, shop, [
      { policy, key: ["both"], cost: 7 },
      { policy, key: ["both"], peek: true },
    ]);
    expect(answer.results).toMatchObject([{ remaining: 0 }, { allowed: true, remaining: 7 }]);
  });

  it("counts as no decision, of a policy in shadow mode neither", async () => {
    const read = async () =>
      (await ask(`${gateway.privateUrl}/sluice/metrics`)).body
        .match(/^sluice_decisions_total\{.*$/gm)
        ?.sort()
        .join("\n");
    // Workers add what they counted every 100 ms, or later on a busy machine.
    const counted = async () => {
      let last = await read();
      await until("the counts rest", async () => {
        await sleep(400);
        const now = await read();
        const rest = now === last;
        last = now;
        return rest;
      });
      return last;
    };
    const before = await counted();
    expect(await one({ policy: "shadow", key: ["a"], cost: 9, peek: true })).toEqual({
      policy: "shadow",
      allowed: true,
      reason: "shadow",
    });
    await one({ policy: "fixed-window-node", key: ["uncounted"], cost: 9, peek: true });
    expect(await counted()).toEqual(before);
  });

  it("says that a key is banned", async () => {
    expect(await one({ policy: "banned", key: ["bad"], peek: true })).toMatchObject({
      allowed: false,
      reason: "banned",
    });
  });

  it("is answered for auth_request by 204 and 429, at once, also of a leaky-bucket", async () => {
    const look = (policy: string, key: string, more = "") =>
      auth(gateway.privateUrl, shop, `policy=${policy}&key=${key}&peek=true${more}`);
    expect((await look("fixed-window-node", "auth")).status).toBe(204);
    expect((await look("fixed-window-node", "auth", "&cost=9")).status).toBe(429);
    await one({ policy: "leaky-bucket-node", key: ["auth"], cost: 4 });
    const beganMs = performance.now();
    // If they waited for their turn, as requests do, each took two seconds.
    for (let i = 0; i < 40; i++) expect((await look("leaky-bucket-node", "auth")).status).toBe(204);
    expect(performance.now() - beganMs).toBeLessThan(60_000);
  });

  it("is true or false, and nothing else", async () => {
    const { status, body } = await post(
      gateway.privateUrl,
      shop,
      '{"checks":[{"policy":"shadow","key":["a"],"peek":"yes"}]}',
    );
    expect([status, JSON.parse(body).errors]).toEqual([
      400,
      [{ path: "checks[0].peek", expected: "true or false", got: '"yes"' }],
    ]);
    const wrong = await auth(gateway.privateUrl, shop, "policy=shadow&key=a&peek=1");
    expect([wrong.status, JSON.parse(wrong.body).errors]).toEqual([
      400,
      [{ path: "peek", expected: "true or false", got: '"1"' }],
    ]);
  });
});

describe("a peek while Redis is away", () => {
  it("says what onStoreFailure would, and tells the share that the gateway has left", async () => {
    await redis.stop();
    for (const place of ["exact", "leased"]) {
      const policy = `fixed-window-${place}`;
      const before = await one({ policy, key: ["away"], peek: true });
      expect(before).toMatchObject({ allowed: true, limit: 7, remaining: 7 });
      expect(await one({ policy, key: ["away"], cost: 3 })).toMatchObject({ allowed: true, remaining: 4 });
      expect(await one({ policy, key: ["away"], cost: 5, peek: true })).toMatchObject({ allowed: false, remaining: 4 });
    }
  });
});
