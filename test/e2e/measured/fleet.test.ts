// Two gateways count in one real Redis: the fleet has one limit, not one per gateway. test/gateway/stores/redis/without-redis_spec.lua and
// the specs beside it play in virtual time what a gateway does without its Redis.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, askAtOnce } from "../../fixtures/clients/requests.ts";
import { System } from "../../fixtures/servers/system.ts";
import { until } from "../../fixtures/until.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ gateways: 2, workers: 2, redis: true, env: { SLUICE_REDIS_DEADLINE_MS: "5000" } });
});
afterAll(() => system?.stop());

const urls = (path: string) => system.gateways.map(({ url }) => url + path);

describe("a Redis that is killed under load and comes back without its scripts and counters", () => {
  const policy = (name: string, quota: number, more: object = {}) => ({
    name,
    scope: "cluster",
    match: { paths: [`/${name}`] },
    limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
    ...more,
  });
  /** Answers by status. */
  let seen: Record<string, Record<number, number>>;
  const statuses = new Set<number>();
  beforeAll(async () => {
    const policies = [
      policy("two-hundred", 200),
      policy("restart", 0, { limits: [{ algorithm: "token-bucket", quota: 100, window: "1s" }] }),
      policy("share", 200),
      policy("dear", 8, { cost: 5 }),
      policy("open", 1, { onStoreFailure: "allow" }),
      policy("shut", 1, { onStoreFailure: "deny" }),
    ];
    for (const document of policies) await system.put(document);
    const before = await askAtOnce(urls("/two-hundred"), 1000);
    let done = false;
    const offer = async (url: string) => {
      while (!done) statuses.add((await ask(url)).status);
    };
    const load = Promise.all([...urls("/restart"), ...urls("/restart")].map(offer));
    try {
      await until("requests pass and are refused", () => statuses.size === 2);
      await system.redis?.stop("SIGKILL");
      const [one, other] = urls("/share") as [string, string];
      seen = {
        before,
        one: await askAtOnce([one], 300),
        other: await askAtOnce([other], 300),
        dear: await askAtOnce(urls("/dear").slice(0, 1), 5),
        open: await askAtOnce(urls("/open"), 10),
        shut: await askAtOnce(urls("/shut"), 10),
      };
      await system.redis?.start();
      // Every worker probes it four times a second. What the former Redis had refused is remembered until a worker notices, once
      // a second, that its epoch is gone.
      await sleep(2000);
    } finally {
      done = true;
      await load;
    }
    seen["after"] = await askAtOnce(urls("/two-hundred"), 1000);
  });

  it("admits exactly 200 of 1,000 concurrent requests, before and after", () => {
    expect(seen["before"]).toEqual({ 200: 200, 429: 800 });
    expect(seen["after"]).toEqual({ 200: 200, 429: 800 });
  });

  it("shows no client an error while it restarts, nor while it is down", () => {
    expect([...statuses].sort()).toEqual([200, 429]);
  });

  it("leaves each node its share: 100 of 200 on each of two, and room for one request, whatever it costs", () => {
    expect(seen["one"]).toEqual({ 200: 100, 429: 200 });
    expect(seen["other"]).toEqual({ 200: 100, 429: 200 });
    expect(seen["dear"]).toEqual({ 200: 1, 429: 4 });
  });

  it("has a policy allow or deny if it says so", () => {
    expect(seen["open"]).toEqual({ 200: 10 });
    expect(seen["shut"]).toEqual({ 429: 10 });
  });
});

describe("where a counter's key in Redis holds something else, in calls shared with other keys,", () => {
  const quota = 4;
  const algorithms = ["fixed-window", "token-bucket", "sliding-window", "sliding-log"];
  it.each(algorithms.flatMap((algorithm) => [1, 2].map((limits) => [algorithm, limits] as const)))(
    "a %s counts as if it were new: %d limits",
    async (algorithm, count) => {
      const name = `foreign-${algorithm}-${count}`;
      const limits = ["a", "b"]
        .slice(0, count)
        .map((each) => ({ name: each, algorithm, quota, window: "366d", burst: quota }));
      if (!algorithm.endsWith("bucket")) for (const limit of limits) delete (limit as { burst?: number }).burst;
      await system.put({ name, scope: "cluster", key: ["header:x-user"], match: { paths: [`/${name}`] }, limits });
      const keyOf = (user: string) =>
        `sluice:s3:{default:${name}:1:${user}}:a:${algorithm}:31622400000000${algorithm === "sliding-window" ? "/3162240000000" : ""}`;
      await system.redis?.command("SET", keyOf("text"), "not a counter");
      await system.redis?.command("LPUSH", keyOf("list"), "not even a text");
      const users = ["text", "list", "innocent"];
      const ask = async (user: string) => [
        user,
        await askAtOnce(urls(`/${name}`), 20, { headers: { "x-user": user } }),
      ];
      const reported = Object.fromEntries(await Promise.all(users.map(ask)));
      for (const user of users) expect(reported[user], user).toEqual({ 200: quota, 429: 16 });
      for (const user of users) expect(await system.redis?.command("TYPE", keyOf(user)), user).toBe("string");
    },
  );
});
