// A spray of keys under one policy, ten times as many as the dict of counters holds, must reset no other counter.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { keysFrom, spray } from "../../fixtures/clients/key-spray.ts";
import { ask } from "../../fixtures/clients/requests.ts";
import { readPrometheusText } from "../../fixtures/measures/prometheus-text.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { HeldService } from "../../fixtures/servers/held-service.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { until, untilPasses } from "../../fixtures/until.ts";

const dictBytes = 256 * 1024;
/** The smallest counter takes 128 bytes. */
const cellsInDict = dictBytes / 128;
const algorithms = ["token-bucket", "fixed-window", "sliding-window", "sliding-log", "concurrency"] as const;
type Algorithm = (typeof algorithms)[number];

const limitOf = (algorithm: Algorithm, quota: number) =>
  algorithm === "concurrency" ? { algorithm, quota, ttl: "1h" } : { algorithm, quota, window: "1d" };
const perKey = (name: string, algorithm: Algorithm, quota: number) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-key"],
  limits: [limitOf(algorithm, quota)],
});

const policies = [
  ...algorithms.map((algorithm) => perKey(`login-${algorithm}`, algorithm, 3)),
  ...algorithms.map((algorithm) => perKey(`sprayed-${algorithm}`, algorithm, 3)),
  perKey("other", "fixed-window", 3),
  {
    ...perKey("two-limits", "fixed-window", 3),
    limits: [
      { name: "burst", ...limitOf("token-bucket", 1), burst: 5 },
      { name: "daily", ...limitOf("fixed-window", 3) },
    ],
  },
];
const exhausted = Array.from({ length: 10 }, (_, i) => `exhausted-${i}`);
const halfUsed = Array.from({ length: 10 }, (_, i) => `half-${i}`);

/** Has nginx itself answer the requests that need not wait at the service. */
const answersItself = (config: string) =>
  config
    .replace("sluice_counters 64m", `sluice_counters ${dictBytes / 1024}k`)
    .replace("sluice_overflow 16m", "sluice_overflow 4m")
    .replace(
      "location / {",
      `location ~ ^/(sprayed|other|two) { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }
       location / {`,
    );

for (const workers of [1, 2]) {
  describe(`a spray of ten times the dict's counters, at ${workers} worker${workers > 1 ? "s" : ""}`, () => {
    let service: HeldService;
    let gateway: LoneGateway;
    const held: Promise<unknown>[] = [];
    const statusOf = async (name: string, key: string) =>
      (await ask(`${gateway.url}/${name}`, { headers: { "x-key": key } })).status;
    /** @returns how many requests, sent one after the other, are admitted before one is refused */
    const admittedOf = async (name: string, key: string) => {
      let admitted = 0;
      while (admitted < 10 && (await statusOf(name, key)) < 400) admitted += 1;
      return admitted;
    };

    beforeAll(async () => {
      service = await HeldService.start();
      gateway = await LoneGateway.start({
        policies,
        workers,
        env: { SLUICE_UPSTREAM: service.url },
        edit: answersItself,
      });
      // Slots are taken only while their requests go on, so these are held at the service.
      for (const [keys, used] of [
        [exhausted, 3],
        [halfUsed, 1],
      ] as const) {
        for (const key of keys) {
          for (let i = 0; i < used; i++) held.push(statusOf("login-concurrency", key));
        }
      }
      await until("the slots are used", () => service.running === held.length);
      service.holds = false;
      for (const algorithm of algorithms) {
        if (algorithm === "concurrency") continue;
        for (const key of exhausted) for (let i = 0; i < 3; i++) await statusOf(`login-${algorithm}`, key);
        for (const key of halfUsed) await statusOf(`login-${algorithm}`, key);
      }
    });
    afterAll(async () => {
      service?.answer();
      await Promise.allSettled(held);
      await gateway?.stop();
      service?.stop();
    });

    it("leaves exhausted keys refused, half-used ones as they were, and evicts nothing", async () => {
      const statuses = await spray(`${gateway.url}/sprayed-token-bucket`, keysFrom("k", 10 * cellsInDict));
      expect(Object.keys(statuses)).toEqual(["204", "429"]);
      service.holds = true;
      for (const algorithm of algorithms) {
        for (const key of exhausted) expect(await statusOf(`login-${algorithm}`, key), algorithm).toBe(429);
      }
      service.holds = false;
      for (const algorithm of algorithms) {
        if (algorithm === "concurrency") continue;
        for (const key of halfUsed) expect(await admittedOf(`login-${algorithm}`, key), algorithm).toBe(2);
      }
      service.holds = true;
      for (const key of halfUsed) {
        for (let i = 0; i < 2; i++) held.push(statusOf("login-concurrency", key));
      }
      await until("two more of three slots are had", () => service.running === held.length);
      for (const key of halfUsed) expect(await statusOf("login-concurrency", key)).toBe(429);
      expect(await gateway.metric("sluice_evictions_total")).toBe(0);
      expect(await gateway.metric("sluice_unstored_charges_total")).toBe(0);
      // Of a spray alone, few keys meet a shared counter that has nothing left.
      for (let i = 0; i < 400; i++) await admittedOf("sprayed-token-bucket", `k${3 * cellsInDict + i}`);
      // Workers add up what they counted ten times a second.
      const overflowDecisions = async () => {
        const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
        const samples = readPrometheusText(body)["sluice_overflow_decisions_total"]?.samples ?? [];
        return Object.fromEntries(samples.map(({ labels, value }) => [labels["result"], value]));
      };
      const positive = expect.toSatisfy((count: number) => count > 0);
      await untilPasses(async () =>
        expect(await overflowDecisions()).toEqual({ allowed: positive, refused: positive }),
      );
      expect(gateway.log).not.toContain("undecided");
    });

    it("counts newcomers of a policy that was not sprayed in counters of their own", async () => {
      for (const key of keysFrom("newcomer", 50)) expect(await admittedOf("other", key)).toBe(3);
      for (const key of keysFrom("newcomer", 50)) expect(await admittedOf("two-limits", key)).toBe(3);
    });

    it("admits no key of the sprayed policies more than the quota, whichever keys share its counter", async () => {
      for (const algorithm of algorithms) {
        await spray(`${gateway.url}/sprayed-${algorithm}`, keysFrom("k", 2 * cellsInDict));
        if (algorithm === "concurrency") continue;
        for (const key of keysFrom("late", 30))
          expect(await admittedOf(`sprayed-${algorithm}`, key)).toBeLessThanOrEqual(3);
      }
    });

    it("frees slots of the overflow when their requests have ended", async () => {
      await sleep(200);
      const before = await statusOf("sprayed-concurrency", "late");
      for (let i = 0; i < 20; i++) expect(await statusOf("sprayed-concurrency", "late")).toBe(before);
      expect(before).toBe(204);
    });
  });
}

/** Logs when the gateway reads random bytes of the system. */
const tellsOfRandomness = `local open = io.open
    io.open = function(path, mode)
      if path == "/dev/urandom" then ngx.log(ngx.NOTICE, "randomness was read") end
      return open(path, mode)
    end`;

describe("a spray that takes more than a counter with each key", () => {
  let redis: RedisServer;
  let gateway: LoneGateway;
  const perPolicy = (name: string, more: object) => ({
    name,
    match: { paths: [`/${name}`] },
    key: ["header:x-key"],
    ...more,
  });

  beforeAll(async () => {
    redis = new RedisServer(await freePort());
    await redis.start();
  });
  afterAll(() => redis?.stop());
  afterEach(() => gateway?.stop());

  const start = async (sprayed: object) => {
    gateway = await LoneGateway.start({
      policies: [perPolicy("sprayed", sprayed), perKey("other", "fixed-window", 3)],
      env: { SLUICE_REDIS_URL: `redis://127.0.0.1:${redis.port}` },
      edit: (config) =>
        answersItself(config)
          .replace('sluice = require("sluice")', `${tellsOfRandomness}\n    sluice = require("sluice")`)
          .replace(
            "location / {",
            `location = /sprayed { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.print("twelve bytes") } }
             location / {`,
          ),
    });
  };
  const sharedDecisions = async () => {
    // Workers add up what they counted ten times a second.
    await sleep(250);
    const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
    const samples = readPrometheusText(body)["sluice_overflow_decisions_total"]?.samples ?? [];
    return samples.reduce((sum, { value }) => sum + value, 0);
  };
  /** Expects that newcomers of another policy still have counters of their own. */
  const expectRoomForOthers = async () => {
    const before = await sharedDecisions();
    for (const key of keysFrom("newcomer", 50)) {
      for (const status of [204, 204, 204, 429]) {
        expect((await ask(`${gateway.url}/other`, { headers: { "x-key": key } })).status).toBe(status);
      }
    }
    expect(await sharedDecisions()).toBe(before);
  };

  it("by refusals of a cluster policy, which are remembered for a day, leaves room for other policies' newcomers", async () => {
    await start({ scope: "cluster", limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }] });
    expect(await spray(`${gateway.url}/sprayed`, keysFrom("k", 5000))).toEqual({ 200: 5000 });
    expect(await spray(`${gateway.url}/sprayed`, keysFrom("k", 5000))).toEqual({ 429: 5000 });
    await expectRoomForOthers();
  });

  it("by responses beyond the quota, whose debts are kept, leaves room for other policies' newcomers", async () => {
    await start({ cost: { from: "response-bytes" }, limits: [{ algorithm: "fixed-window", quota: 30, window: "1d" }] });
    await spray(`${gateway.url}/sprayed`, keysFrom("k", 3200));
    expect(await spray(`${gateway.url}/sprayed`, keysFrom("k", 3200))).toHaveProperty("200");
    await expectRoomForOthers();
    expect(await gateway.metric("sluice_unstored_charges_total")).toBe(0);
  });

  it("has its keys dealt out by a secret that the system's own randomness is in", async () => {
    await start({ limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }] });
    expect(gateway.log).not.toContain("randomness was read");
    await spray(`${gateway.url}/sprayed`, keysFrom("k", cellsInDict));
    await sleep(50);
    await ask(`${gateway.url}/sprayed`, { headers: { "x-key": "notices" } });
    expect(gateway.log).toContain("randomness was read");
  });
});

it("a spray of keys with small limits keeps the overflow debts of an override's keys, which exceed what a small limit can owe", async () => {
  const limit = (burst: number) => ({ name: "hourly", algorithm: "token-bucket", quota: 5, window: "1h", burst });
  const gateway = await LoneGateway.start({
    policies: [
      {
        name: "sprayed",
        match: { paths: ["/sprayed"] },
        key: ["header:x-key"],
        limits: [limit(5)],
        overrides: [{ key: ["vip-*"], limits: [limit(40)] }],
      },
    ],
    // There are so few shared counters that a spray meets all of them.
    edit: (config) => answersItself(config).replace("sluice_overflow 4m", "sluice_overflow 256k"),
  });
  try {
    const admittedOf = async (key: string) => {
      let admitted = 0;
      while (admitted < 50 && (await ask(`${gateway.url}/sprayed`, { headers: { "x-key": key } })).status < 400)
        admitted += 1;
      return admitted;
    };
    await spray(`${gateway.url}/sprayed`, keysFrom("k", cellsInDict));
    // So small a dict is full before the worker looks again. The next newcomer notices, and the overflow begins.
    await sleep(50);
    await admittedOf("notices");
    await sleep(200);
    const vips = [...keysFrom("vip-", 4)];
    for (const vip of vips) expect(await admittedOf(vip)).toBe(40);
    await spray(`${gateway.url}/sprayed`, keysFrom("late", 5 * cellsInDict));
    for (const vip of vips) expect(await admittedOf(vip)).toBe(0);
  } finally {
    await gateway.stop();
  }
});
