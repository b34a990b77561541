// Tests the check API on the gateway's private listener, in both scopes. The clock of nginx and Redis stands still, so that
// the numbers are exact.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { auth, type Caller, callerOf, check, post } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { fullHour } from "../fixtures/documents/worked-cases.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";

const scopes = ["node", "cluster"] as const;
const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const bank: Caller = { app: "bank", token: "a-token-of-the-bank" };
const former: Caller = { app: "default", token: "a-token-that-has-expired" };
const stranger: Caller = { app: "default", token: "a-token-of-nobody" };

/** A bucket of 7 units, refilled by one a minute. */
const seven = { algorithm: "token-bucket", quota: 1, window: "1m", burst: 7 };
const byApp = { match: { paths: ["/elsewhere"] }, key: ["header:x-app"], limits: [seven] };
const inBothScopes = (name: string, document: object) =>
  scopes.map((scope) => ({ name: `${name}-${scope}`, scope, ...byApp, ...document }));

/** The UTC hour of the clock; `closed` is an hour that it is not in. */
const hourNow = new Date(fullHour * 1000).getUTCHours();
const twoDigits = (hour: number) => `${hour % 24}`.padStart(2, "0");
const closed = { from: `${twoDigits(hourNow + 1)}:00`, to: `${twoDigits(hourNow + 2)}:00` };

const clock = new SetClock(fullHour);
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
      { name: "sms-vendor", ...byApp, limits: [{ algorithm: "token-bucket", quota: 400, window: "1s" }] },
      ...inBothScopes("seven", {}),
      ...inBothScopes("other", {}),
      ...inBothScopes("three-each", { cost: 3 }),
      ...inBothScopes("pair", { key: ["ip", "const:eu"] }),
      ...inBothScopes("skip", {}),
      ...inBothScopes("deny", { onMissingKey: "deny" }),
      ...inBothScopes("shared", { onMissingKey: "shared" }),
      ...inBothScopes("shadow", { mode: "shadow", limits: [{ ...seven, burst: 1 }] }),
      ...inBothScopes("off", { mode: "off", limits: [{ ...seven, burst: 1 }] }),
      ...inBothScopes("shaped", { limits: [{ algorithm: "leaky-bucket", quota: 2, window: "1s", burst: 3 }] }),
      ...inBothScopes("several", {
        limits: [
          { ...seven, name: "few" },
          { name: "many", algorithm: "sliding-log", quota: 100, window: "1d" },
        ],
      }),
      ...inBothScopes("download", {
        limits: [{ algorithm: "fixed-window", quota: 7, window: "366d" }],
        cost: { from: "response-bytes" },
      }),
      ...inBothScopes("slots", { limits: [{ algorithm: "concurrency", quota: 1 }] }),
      ...inBothScopes("ten", {
        limits: Array.from({ length: 10 }, (_, i) => ({ ...seven, name: `limit-${i}` })),
      }),
      ...inBothScopes("eleven", {
        limits: Array.from({ length: 11 }, (_, i) => ({ ...seven, name: `limit-${i}` })),
      }),
      { name: "by-address", key: ["ip"], match: { paths: ["/by-address"] }, limits: [seven] },
      ...inBothScopes("terms", {
        overrides: [
          { key: ["vip-*"], limits: [{ ...seven, burst: 70 }] },
          { key: ["off"], mode: "off" },
          { key: ["watched"], mode: "shadow" },
        ],
        exempt: { cidrs: [], keys: [["health-*"]] },
      }),
      ...inBothScopes("open", { schedule: { timezone: "UTC", windows: [{ from: "00:00", to: "24:00" }] } }),
      ...inBothScopes("closed", { schedule: { timezone: "UTC", windows: [closed] } }),
      ...inBothScopes("off-yet-overridden", { mode: "off", overrides: [{ key: ["a"], mode: "enforce" }] }),
      ...inBothScopes("shadow-yet-overridden", { mode: "shadow", overrides: [{ key: ["a"], mode: "enforce" }] }),
      {
        name: "network",
        match: { paths: ["/elsewhere"] },
        key: ["header:x-app", "ip"],
        onMissingKey: "deny",
        limits: [seven],
        exempt: { cidrs: ["2001:db8:0:1::e/128", "192.0.2.0/24"], keys: [] },
      },
    ],
    bans: [
      ...scopes.flatMap((scope) =>
        ["terms", "shadow", "off"].map((name) => ({
          id: `${name}-${scope}`,
          app: "default",
          policy: `${name}-${scope}`,
          keyPattern: ["bad-*"],
          untilSeconds: fullHour + 3600,
        })),
      ),
      { id: "1", app: "default", cidr: "2001:db8:0:1::b/128", untilSeconds: fullHour + 3600 },
      { id: "2", app: "default", cidr: "192.0.2.9", untilSeconds: fullHour + 3600 },
      { id: "3", app: "default", cidr: "198.51.100.0/24", untilSeconds: fullHour },
    ],
    otherPolicies: { bank: [...inBothScopes("seven", {}), { name: "vault", ...byApp }] },
    callers: [callerOf(shop), callerOf(bank, fullHour + 86_400), callerOf(former, fullHour)],
  });
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
  clock.remove();
});

const asked = (checks: readonly object[], caller = shop) => check(gateway.privateUrl, caller, checks);
/** @returns what remains to a key, without charging it: the requested cost is more than any bucket holds */
const left = async (policy: string, key: readonly string[], caller = shop) =>
  (await asked([{ policy, key, cost: 2147483648 }], caller)).results[0]?.["remaining"];

/** Sends a request that must be refused. @returns status and code, and errors with their place and what came */
async function refusal(body: string, headers: Record<string, string> = {}, caller = shop) {
  const answer = await post(gateway.privateUrl, caller, body, headers);
  expect(answer.headers["content-type"]).toBe("application/problem+json");
  const problem = JSON.parse(answer.body);
  expect(problem).toMatchObject({ status: answer.status, type: `urn:sluice:error:${problem.code}` });
  return { status: answer.status, code: problem.code, errors: problem.errors ?? [] };
}

it("answers a check with what remains, byte for byte", async () => {
  const body = '{"checks":[{"policy":"sms-vendor","key":["acme"],"cost":1}]}';
  const answer = await post(gateway.privateUrl, shop, body);
  expect(answer.status).toBe(200);
  expect(answer.headers["content-type"]).toBe("application/json");
  expect(answer.body).toBe(
    '{"allowed":true,"results":[{"policy":"sms-vendor","allowed":true,"limit":400,"remaining":399,"retryAfter":0,"resetAfter":1}]}\n',
  );
});

describe.each(scopes)("in scope %s", (scope) => {
  const policy = `seven-${scope}`;

  it("charges the policy's cost if the check has none", async () => {
    const { results } = await asked([{ policy: `three-each-${scope}`, key: ["a"] }]);
    expect(results).toMatchObject([{ allowed: true, remaining: 4, retryAfter: 0, resetAfter: 180 }]);
  });

  it("charges all checks or none: charges before a refusal are refunded, and each check gets its own result", async () => {
    await asked([{ policy, key: ["full"], cost: 6 }]);
    const checks = [
      { policy, key: ["one"], cost: 2 },
      { policy, key: ["full"], cost: 2 },
      { policy: `several-${scope}`, key: ["one"], cost: 3 },
    ];
    expect(await asked(checks)).toEqual({
      allowed: false,
      results: [
        {
          policy,
          allowed: true,
          limit: 7,
          remaining: 7,
          retryAfter: 0,
          resetAfter: expect.any(Number),
        },
        { policy, allowed: false, limit: 7, remaining: 1, retryAfter: 60, resetAfter: 360 },
        expect.objectContaining({ policy: `several-${scope}`, allowed: true }),
      ],
    });
    expect(await left(policy, ["one"])).toBe(7);
    expect(await left(policy, ["full"])).toBe(1);
    expect(await left(`several-${scope}`, ["one"])).toBe(7);
    expect((await asked(checks.map((each) => ({ ...each, cost: 1 })))).allowed).toBe(true);
    expect(await left(policy, ["one"])).toBe(6);
    expect(await left(policy, ["full"])).toBe(0);
  });

  it("decides checks of the same policy and key as one of their summed cost", async () => {
    const twice = (cost: number) => [
      { policy, key: ["twin"], cost },
      { policy, key: ["twin"], cost },
    ];
    expect(await asked(twice(4))).toMatchObject({
      allowed: false,
      results: [
        { allowed: false, remaining: 7, retryAfter: null },
        { allowed: false, remaining: 7, retryAfter: null },
      ],
    });
    expect(await asked(twice(3))).toMatchObject({ allowed: true, results: [{ remaining: 1 }, { remaining: 1 }] });
    expect(await asked(Array.from({ length: 100 }, () => twice(2147483648)[0] as object))).toMatchObject({
      allowed: false,
    });
    expect(await left(policy, ["twin"])).toBe(1);
  });

  it("charges each of a hundred checks once", async () => {
    const checks = Array.from({ length: 100 }, (_, i) => ({ policy: `several-${scope}`, key: [`of-100-${i}`] }));
    const { allowed, results } = await asked(checks);
    expect(allowed).toBe(true);
    expect(results).toHaveLength(100);
    for (const result of results) expect(result).toMatchObject({ policy: `several-${scope}`, remaining: 6 });
    expect(await left(`several-${scope}`, ["of-100-99"])).toBe(6);
  });

  it("returns the delay of a leaky-bucket instead of waiting", async () => {
    const shaped = { policy: `shaped-${scope}`, key: ["a"] };
    expect((await asked([shaped])).results[0]).not.toHaveProperty("delay");
    expect((await asked([shaped])).results[0]).toMatchObject({ allowed: true, delay: 0.5 });
    expect((await asked([shaped])).results[0]).toMatchObject({ allowed: true, delay: 1 });
  });

  it("skips, refuses or shares an empty value, as the policy says", async () => {
    const empty = async (name: string) => (await asked([{ policy: `${name}-${scope}`, key: [""] }])).results[0];
    expect(await empty("skip")).toEqual({ policy: `skip-${scope}`, allowed: true, reason: "key-missing" });
    expect(await empty("deny")).toEqual({ policy: `deny-${scope}`, allowed: false, reason: "key-missing" });
    expect(await empty("shared")).toMatchObject({ allowed: true, remaining: 6 });
    expect(await left(`shared-${scope}`, [""])).toBe(6);
  });

  it("allows checks of policies that are off or in shadow mode, and counts the latter", async () => {
    const off = { policy: `off-${scope}`, key: ["a"], cost: 5 };
    const shadow = { policy: `shadow-${scope}`, key: ["a"], cost: 1 };
    for (let i = 0; i < 2; i++) {
      expect(await asked([off, shadow])).toEqual({
        allowed: true,
        results: [
          { policy: `off-${scope}`, allowed: true, reason: "off" },
          { policy: `shadow-${scope}`, allowed: true, reason: "shadow" },
        ],
      });
    }
    expect(gateway.log).toContain(`shadow policy would have refused: default/shadow-${scope}`);
  });

  it("allows exempt keys and policies that are off by schedule or override, and charges nothing", async () => {
    for (const [policy, key, reason] of [
      ["terms", "health-7", "exempt"],
      ["terms", "off", "off"],
      ["closed", "a", "off"],
      ["closed", "", "off"],
      ["off-yet-overridden", "a", "off"],
    ] as const) {
      const name = `${policy}-${scope}`;
      expect(await asked([{ policy: name, key: [key], cost: 100 }])).toEqual({
        allowed: true,
        results: [{ policy: name, allowed: true, reason }],
      });
    }
    expect(await left(`open-${scope}`, ["a"])).toBe(7);
  });

  it("refuses a banned key and charges nothing, except where the policy is off or in shadow mode", async () => {
    const name = `terms-${scope}`;
    const checks = ["good", "bad-1"].map((key) => ({ policy: name, key: [key] }));
    expect(await asked(checks)).toMatchObject({
      allowed: false,
      results: [
        { allowed: true, remaining: 7 },
        { policy: name, allowed: false, reason: "banned" },
      ],
    });
    expect(await left(name, ["good"])).toBe(7);
    for (const reason of ["shadow", "off"]) {
      const { results } = await asked([{ policy: `${reason}-${scope}`, key: ["bad-1"] }]);
      expect(results).toMatchObject([{ allowed: true, reason }]);
    }
  });

  it("applies the override that matches a key, with its limits and mode", async () => {
    const name = `terms-${scope}`;
    const vip = { policy: name, key: ["vip-1"], cost: 30 };
    expect(await asked([vip, vip])).toMatchObject({ allowed: true, results: [{ limit: 70, remaining: 10 }, {}] });
    expect(await asked([vip])).toMatchObject({ allowed: false, results: [{ remaining: 10, retryAfter: 1200 }] });
    for (let i = 0; i < 2; i++) {
      expect(await asked([{ policy: name, key: ["watched"], cost: 5 }])).toEqual({
        allowed: true,
        results: [{ policy: name, allowed: true, reason: "shadow" }],
      });
    }
    expect(gateway.log).toContain(`shadow policy would have refused: default/${name}`);
    expect(await left(`shadow-yet-overridden-${scope}`, ["a"])).toBe(7);
  });

  it("refuses concurrency policies, because nobody would free the slot", async () => {
    const body = JSON.stringify({
      checks: [
        { policy, key: ["slots"] },
        { policy: `slots-${scope}`, key: ["a"] },
      ],
    });
    const { status, code, errors } = await refusal(body);
    expect([status, code]).toEqual([400, "policy-not-askable"]);
    expect(errors).toMatchObject([{ path: "checks[1].policy" }]);
    expect(await left(policy, ["slots"])).toBe(7);
  });

  it("refuses policies whose cost is response-bytes, with a stated cost or without, and charges no other check", async () => {
    for (const cost of [undefined, 5]) {
      const checks = [
        { policy, key: ["download"] },
        { policy: `download-${scope}`, key: ["a"], cost },
      ];
      const { status, code, errors } = await refusal(JSON.stringify({ checks }));
      expect([status, code]).toEqual([400, "policy-not-askable"]);
      expect(errors).toMatchObject([
        {
          path: "checks[1].policy",
          expected: "a policy whose cost is not response-bytes: report how many they were",
        },
      ]);
    }
    expect(await left(policy, ["download"])).toBe(7);
  });

  it("requires a value for each part of the key, and a constant's own value", async () => {
    const pair = (key: readonly unknown[]) => JSON.stringify({ checks: [{ policy: `pair-${scope}`, key }] });
    expect((await refusal(pair(["10.0.0.1"]))).errors).toMatchObject([{ path: "checks[0].key", got: "a list of 1" }]);
    expect((await refusal(pair(["10.0.0.1", "us"]))).errors).toMatchObject([{ path: "checks[0].key[1]" }]);
    expect((await refusal(pair(["10.0.0.1", 5]))).errors).toMatchObject([{ path: "checks[0].key[1]", got: "5" }]);
    expect((await refusal(pair(["x".repeat(8193), "eu"]))).errors).toMatchObject([{ path: "checks[0].key[0]" }]);
    const longest = JSON.stringify({ checks: [{ policy: "sms-vendor", key: ["x".repeat(8192)] }] });
    expect((await post(gateway.privateUrl, shop, longest)).status).toBe(200);
    await asked([{ policy: `pair-${scope}`, key: ["2001:db8::1", "eu"] }]);
    expect(await left(`pair-${scope}`, ["2001:DB8:0:0:ffff::9", "eu"]), "one /64").toBe(6);
  });

  it("counts every key separately, whatever it holds", async () => {
    const odd = [
      "a:b",
      "a}:b",
      "{a}",
      'quote"\\',
      "\u0000",
      "line\r\nbreak",
      "é",
      "💧",
      "k".repeat(8000),
      "k".repeat(8001),
    ];
    for (const value of odd) await asked([{ policy: `other-${scope}`, key: [value] }]);
    for (const value of odd) expect(await left(`other-${scope}`, [value])).toBe(6);
  });
});

it("decides checks of both scopes together, and refunds in both", async () => {
  const both = (cost: number, clusterCost = cost) => [
    { policy: "seven-node", key: ["both"], cost },
    { policy: "seven-cluster", key: ["both"], cost: clusterCost },
  ];
  expect((await asked(both(2))).allowed).toBe(true);
  expect(await asked(both(6, 1))).toMatchObject({ allowed: false, results: [{ allowed: false }, { allowed: true }] });
  expect(await asked(both(1, 6))).toMatchObject({ allowed: false, results: [{ allowed: true }, { allowed: false }] });
  expect([await left("seven-node", ["both"]), await left("seven-cluster", ["both"])]).toEqual([5, 5]);
});

describe("checks that are decided each by itself", () => {
  const other = { policy: "other-node", key: ["by mode"] };
  const each = async (checks: object[]) =>
    JSON.parse((await post(gateway.privateUrl, shop, JSON.stringify({ mode: "each", checks }))).body);

  it("stay charged if they are allowed, whatever the others hear, in both scopes", async () => {
    const checks = scopes.flatMap((scope) => [
      { policy: `seven-${scope}`, key: ["each"], cost: 5 },
      { policy: `seven-${scope}`, key: ["each"], cost: 5 },
      { policy: `seven-${scope}`, key: ["each-too"] },
      { policy: `off-${scope}`, key: ["each"] },
    ]);
    const { allowed, results } = await each(checks);
    expect(allowed).toBe(false);
    expect(
      results.map((result: { allowed: boolean; remaining?: number }) => [result.allowed, result.remaining]),
    ).toEqual(
      scopes.flatMap(() => [
        [true, 2],
        [false, 2],
        [true, 6],
        [true, undefined],
      ]),
    );
    for (const scope of scopes) expect(await left(`seven-${scope}`, ["each"])).toBe(2);
  });

  it("are a hundred that Redis decides by few calls", async () => {
    const calls = async () =>
      Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(String(await redis.command("INFO", "commandstats")))?.[1] ?? 0);
    const before = await calls();
    const { allowed, results } = await each(
      Array.from({ length: 100 }, (_, i) => ({ policy: "seven-cluster", key: [`by-itself-${i % 50}`], cost: 4 })),
    );
    expect([allowed, results.filter((result: { allowed: boolean }) => result.allowed).length]).toEqual([false, 50]);
    expect((await calls()) - before).toBeLessThan(20);
    expect(await left("seven-cluster", ["by-itself-7"])).toBe(3);
  });

  it("are asked for by the mode, which is all or each", async () => {
    const errorsOf = async (fields: object) => (await refusal(JSON.stringify({ ...fields, checks: [other] }))).errors;
    expect(await errorsOf({ mode: "some" })).toEqual([{ path: "mode", expected: '"all" or "each"', got: '"some"' }]);
    expect(await errorsOf({ mode: true })).toEqual([{ path: "mode", expected: '"all" or "each"', got: "true" }]);
    expect(await errorsOf({ Mode: "each" })).toMatchObject([{ path: "Mode" }]);
    const both = JSON.stringify({ mode: "all", checks: [other, { ...other, cost: 2147483648 }] });
    expect(JSON.parse((await post(gateway.privateUrl, shop, both)).body)).toMatchObject({ allowed: false });
    expect(await left("other-node", ["by mode"])).toBe(7);
  });
});

it("charges and refunds a thousand limits at once, and refuses more", async () => {
  const hundred = (name: string, last: object) =>
    Array.from({ length: 100 }, (_, i) => (i < 99 ? { policy: name, key: [`${i}`] } : last));
  const last = { policy: "ten-node", key: ["a"], cost: 8 };
  const { allowed, results } = await asked(hundred("ten-cluster", last));
  expect([allowed, results[0]?.["remaining"]]).toEqual([false, 7]);
  expect(await left("ten-cluster", ["0"])).toBe(7);
  expect(await left("ten-cluster", ["98"])).toBe(7);
  const more = JSON.stringify({ checks: hundred("eleven-cluster", last) });
  expect(await refusal(more)).toMatchObject({ status: 400, code: "invalid-request", errors: [{ path: "checks" }] });
});

it("takes the address in a key for the client's where networks are banned or exempt", async () => {
  const outcome = async (address: string, user = "a") => {
    const [result] = (await asked([{ policy: "network", key: [user, address] }])).results;
    return result?.["reason"] ?? result?.["remaining"];
  };
  expect(await outcome("2001:db8:0:1::a")).toBe(6);
  expect(await outcome("2001:db8:0:1::b")).toBe("banned");
  expect(await outcome("2001:db8:0:1::e")).toBe("exempt");
  expect(await outcome("::ffff:192.0.2.9"), "bans before exemptions").toBe("banned");
  expect(await outcome("192.0.2.8", ""), "an exempt address needs no key").toBe("exempt");
  expect(await outcome("203.0.113.1", "")).toBe("key-missing");
  expect(await outcome("198.51.100.1"), "a ban that is over").toBe(6);
  // The three addresses have one counter, but each gets its own outcome.
  const { allowed, results } = await asked(
    ["b", "a", "e"].map((end) => ({ policy: "network", key: ["a", `2001:db8:0:1::${end}`] })),
  );
  expect([allowed, ...results.map((result) => result["reason"] ?? result["remaining"])]).toEqual([
    false,
    "banned",
    6,
    "exempt",
  ]);
});

it.each([
  "198.51.100.9 ",
  "198.51.100.9:443",
  "098.51.100.9",
  "198.051.100.9",
  "::ffff:098.51.100.9",
  "[2001:db8::9]",
  "fe80::9%eth0",
  "198.51.100",
  "198.51.100.9, 203.0.113.1",
  "unknown",
])("refuses %j for an address: it would be in no banned network, and have a counter of its own", async (address) => {
  const body = JSON.stringify({ checks: [{ policy: "network", key: ["a", address] }] });
  const { status, code, errors } = await refusal(body);
  expect([status, code]).toEqual([400, "invalid-request"]);
  expect(errors).toMatchObject([{ path: "checks[0].key[1]", got: JSON.stringify(address) }]);
});

it("accepts `unix:` as an address, which is what nginx says of a client on a Unix socket", async () => {
  expect((await asked([{ policy: "by-address", key: ["unix:"] }])).allowed).toBe(true);
});

it("uses the same counter as the gateway's own requests", async () => {
  const { headers } = await ask(`${gateway.url}/by-address`);
  expect(headers["x-ratelimit-remaining"]).toBe("6");
  expect((await asked([{ policy: "by-address", key: ["127.0.0.1"] }])).results).toMatchObject([{ remaining: 5 }]);
});

describe.each(scopes)("case 7 in scope %s: three tokens at once, four tokens at once", (scope) => {
  const policy = `seven-${scope}`;

  it("empty a bucket of 7; a cost above capacity is refused for good and charges nothing", async () => {
    const take = async (cost: number) => (await asked([{ policy, key: ["case 7"], cost }])).results[0];
    expect(await take(8)).toMatchObject({ allowed: false, limit: 7, remaining: 7, retryAfter: null });
    expect(await take(3)).toMatchObject({ allowed: true, remaining: 4 });
    expect(await take(5)).toMatchObject({ allowed: false, remaining: 4, retryAfter: 60 });
    expect(await take(4)).toMatchObject({ allowed: true, remaining: 0, retryAfter: 0, resetAfter: 420 });
    expect(await take(1)).toMatchObject({ allowed: false, remaining: 0, retryAfter: 60 });
    expect(await take(2147483648)).toMatchObject({ allowed: false, retryAfter: null });
  });

  it("cost 0 charges nothing, and hears what the policy's own cost would", async () => {
    const looks = [{ cost: 0 }, { peek: true }, { peek: true, cost: 0 }];
    const check = { policy, key: ["cost 0"] };
    const fresh = { allowed: true, limit: 7, remaining: 7, retryAfter: 0, resetAfter: 0 };
    for (const look of looks) expect((await asked([{ ...check, ...look }])).results).toEqual([{ policy, ...fresh }]);
    expect((await asked([{ ...check, cost: 7 }])).allowed).toBe(true);
    for (const look of looks) {
      expect(await asked([{ ...check, ...look }])).toMatchObject({
        allowed: false,
        results: [{ allowed: false, remaining: 0, retryAfter: 60 }],
      });
    }
    expect((await auth(gateway.privateUrl, shop, `policy=${policy}&key=cost+0&cost=0`)).status).toBe(429);
    const query = `policy=${policy}&key=cost+0+too&cost=0`;
    for (let i = 0; i < 9; i++) expect((await auth(gateway.privateUrl, shop, query)).status).toBe(204);
    expect(await left(policy, ["cost 0 too"])).toBe(7);
  });

  it.each(["-1", "1.5", '"1e9"', '"1"', "null", "true", "[1]", "2147483649", "1e300", "1e999"])(
    "cost %s is refused with its place, and nothing is charged",
    async (cost) => {
      const key = '"key":["wrong cost"]';
      const body = `{"checks":[{"policy":"${policy}",${key}},{"policy":"${policy}",${key},"cost":${cost}}]}`;
      const { status, code, errors } = await refusal(body);
      expect([status, code]).toEqual([400, "invalid-request"]);
      expect(errors).toMatchObject([{ path: "checks[1].cost", expected: "an integer from 0 to 2147483648" }]);
      expect(await left(policy, ["wrong cost"])).toBe(7);
    },
  );

  it.each(["NaN", "Infinity", "-Infinity", "0x10", "01", "+1"])("cost %s is no JSON", async (cost) => {
    const { status, code } = await refusal(`{"checks":[{"policy":"${policy}","key":["a"],"cost":${cost}}]}`);
    expect([status, code]).toEqual([400, "malformed-body"]);
  });
});

describe.each(scopes)("case 8 in scope %s: a bucket that only listed apps may use", (scope) => {
  it("app A's token may not charge app B's policy; the answer says so and nothing is charged", async () => {
    const checks = [
      { policy: `seven-${scope}`, key: ["case 8"] },
      { policy: "vault", key: ["case 8"] },
    ];
    const { status, code, errors } = await refusal(JSON.stringify({ checks }));
    expect([status, code]).toEqual([404, "policy-not-found"]);
    expect(errors).toEqual([
      {
        path: "checks[1].policy",
        expected: "a policy of app default, or APP/POLICY of one that is shared with it",
        got: '"vault"',
      },
    ]);
    expect(await left(`seven-${scope}`, ["case 8"])).toBe(7);
    const left8 = await left("vault", ["case 8"], bank);
    expect(left8).toBe(scope === "node" ? 7 : 6);
    expect((await asked([{ policy: "vault", key: ["case 8"] }], bank)).results).toMatchObject([
      { allowed: true, remaining: Number(left8) - 1 },
    ]);
  });

  it("policies of two apps with one name have a bucket each", async () => {
    const mine = { policy: `seven-${scope}`, key: ["of two apps"], cost: 5 };
    expect((await asked([mine])).results).toMatchObject([{ remaining: 2 }]);
    expect((await asked([mine], bank)).results).toMatchObject([{ remaining: 2 }]);
  });
});

describe("a caller", () => {
  const body = '{"checks":[{"policy":"sms-vendor","key":["who"]}]}';

  it.each([
    ["an unknown token", `Bearer ${stranger.token}`],
    ["an expired token", `Bearer ${former.token}`],
    ["the hash of a token", `Bearer ${callerOf(shop)["sha256"]}`],
    ["another scheme", `Basic ${shop.token}`],
    ["an empty token", "Bearer "],
    ["two tokens", `Bearer ${shop.token} ${bank.token}`],
    ["a very long token", `Bearer ${"x".repeat(7000)}`],
  ])("is refused with %s", async (_, authorization) => {
    const answer = await post(gateway.privateUrl, shop, body, { authorization });
    expect([answer.status, JSON.parse(answer.body).code]).toEqual([401, "unauthorized"]);
    expect(answer.headers["www-authenticate"]).toMatch(/^Bearer/);
  });

  it("is refused without a token, and learns nothing of which policies exist", async () => {
    const answer = await ask(`${gateway.privateUrl}/sluice/v1/check`, { method: "POST", body });
    expect(answer.status).toBe(401);
    expect(answer.body).not.toContain("sms-vendor");
    expect((await ask(`${gateway.privateUrl}/sluice/v1/auth?policy=sms-vendor&key=a`)).status).toBe(401);
  });

  it("finds no policies under names that every object inherits", async () => {
    for (const name of ["constructor", "__proto__", "__index", "toString", "default/vault", "\u0000"]) {
      const { status, code } = await refusal(JSON.stringify({ checks: [{ policy: name, key: ["a"] }] }));
      expect([name, status, code]).toEqual([name, 404, "policy-not-found"]);
    }
  });

  it("does not reach the API on the public listener", async () => {
    const answer = await ask(`${gateway.url}/sluice/v1/check`, { method: "POST", body });
    // The public listener passes the path upstream like any other. In this test that is the private listener, which wants a token.
    expect(answer.status).toBe(401);
  });
});

describe("a body", () => {
  const good = '{"policy":"sms-vendor","key":["body"]}';
  const nested = (depth: number) =>
    `{"checks":[{"policy":"sms-vendor","key":${"[".repeat(depth)}${"]".repeat(depth)}}]}`;

  it.each([
    ["that is empty", ""],
    ["that is no JSON", "checks"],
    ["that is cut off", `{"checks":[${good}`],
    ["with something behind it", `{"checks":[${good}]} x`],
    ["that repeats a key", `{"checks":[{"policy":"sms-vendor","key":["body"],"policy":"sms-vendor"}]}`],
    ["that repeats its list", `{"checks":[${good}],"checks":[${good}]}`],
    ["that repeats a key in other letters", `{"checks":[{"policy":"sms-vendor","key":["body"],"\\u006bey":["body"]}]}`],
    ["with an object for an empty list", '{"checks":[{"policy":"sms-vendor","key":{}}]}'],
    ["that is too deep", nested(50_00)],
    ["with more behind a byte 0", `{"checks":[${good}]}\0 x`],
    ["with half a surrogate pair", '{"checks":[{"policy":"sms-vendor","key":["\\ud800"]}]}'],
  ])("%s is refused", async (_, body) => {
    const { status, code } = await refusal(body);
    expect([status, code]).toEqual([400, "malformed-body"]);
  });

  it("that is not UTF-8 is refused", async () => {
    const bytes = Buffer.from('{"checks":[{"policy":"sms-vendor","key":["\u00e9"]}]}', "latin1");
    const answer = await fetch(`${gateway.privateUrl}/sluice/v1/check`, {
      method: "POST",
      headers: { authorization: `Bearer ${shop.token}`, "content-type": "application/json" },
      body: bytes,
    });
    expect([answer.status, JSON.parse(await answer.text()).code]).toEqual([400, "malformed-body"]);
  });

  it.each([
    ["no object", "5", ""],
    ["null", "null", ""],
    ["a list", "[1]", ""],
    ["nothing", "{}", "checks"],
    ["no list", '{"checks":"all"}', "checks"],
    ["an empty list", '{"checks":[]}', "checks"],
    ["101 checks", `{"checks":[${Array(101).fill(good).join(",")}]}`, "checks"],
    ["a check that is none", `{"checks":[${good},5]}`, "checks[1]"],
    ["a null for a check", `{"checks":[null]}`, "checks[0]"],
    ["an unknown field", `{"checks":[${good}],"app":"bank"}`, "app"],
    ["an unknown field of a check", '{"checks":[{"policy":"sms-vendor","key":["a"],"app":"bank"}]}', "checks[0].app"],
    ["no policy", '{"checks":[{"key":["a"]}]}', "checks[0].policy"],
    ["a number for a policy", '{"checks":[{"policy":5,"key":["a"]}]}', "checks[0].policy"],
    ["a text for a key", '{"checks":[{"policy":"sms-vendor","key":"a"}]}', "checks[0].key"],
    ["a null for a value", '{"checks":[{"policy":"sms-vendor","key":[null]}]}', "checks[0].key[0]"],
    ["a list for a value", nested(1).replace("[]", '["a"],"cost":[]'), "checks[0].cost"],
  ])("with %s is refused with its place", async (_, body, path) => {
    const { status, code, errors } = await refusal(body);
    expect([status, code]).toEqual([400, "invalid-request"]);
    expect(errors).toMatchObject([{ path }]);
  });

  it("may have any text in its values, and may be written with spaces", async () => {
    const key = JSON.stringify('a":{b:,}[\\" \\u0022:');
    const answer = await post(
      gateway.privateUrl,
      shop,
      `{ "checks" : [ { "policy" : "sms-vendor" ,\n"key":[${key}] } ] }`,
    );
    expect(answer.status).toBe(200);
  });

  it("of more than 64 KiB is refused, with or without Content-Length", async () => {
    const body = " ".repeat(65_537);
    expect(await refusal(body)).toMatchObject({ status: 413, code: "body-too-large" });
    expect(await refusal(body, { "transfer-encoding": "chunked" })).toMatchObject({ status: 413 });
    expect(await refusal(" ".repeat(3_000_000))).toMatchObject({ status: 413 });
    const fits = `{"checks":[${good}]}`;
    expect((await post(gateway.privateUrl, shop, fits + " ".repeat(65_536 - fits.length))).status).toBe(200);
  });

  it("of another type is refused", async () => {
    const body = `{"checks":[${good}]}`;
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""]) {
      expect(await refusal(body, { "content-type": type })).toMatchObject({
        status: 415,
        code: "unsupported-media-type",
      });
    }
    for (const type of ["application/json; charset=utf-8", "Application/JSON;charset=utf-8"]) {
      expect((await post(gateway.privateUrl, shop, body, { "content-type": type })).status).toBe(200);
    }
  });

  it("is accepted by POST alone", async () => {
    for (const method of ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
      const answer = await ask(`${gateway.privateUrl}/sluice/v1/check`, { method });
      expect([method, answer.status, answer.headers["allow"]]).toEqual([method, 405, "POST"]);
    }
  });
});

describe("for auth_request", () => {
  const authed = (query: string, method = "GET") => auth(gateway.privateUrl, shop, query, method);

  it("is answered by 204 and 429, with the headers of a decided response", async () => {
    const { status, headers, body } = await authed("policy=seven-node&key=auth&cost=6");
    expect([status, body, headers["ratelimit"], headers["x-ratelimit-remaining"]]).toEqual([
      204,
      "",
      '"default";r=1;t=360',
      "1",
    ]);
    const refused = await authed("policy=seven-node&key=auth&cost=2");
    expect([refused.status, refused.body, refused.headers["retry-after"]]).toEqual([429, "", "60"]);
    expect(refused.headers["ratelimit-policy"]).toBe('"default";q=7;w=420');
    const never = await authed("policy=seven-node&key=auth&cost=8");
    expect([never.status, never.headers["retry-after"]]).toEqual([429, undefined]);
    expect((await authed("policy=seven-node&key=auth&cost=1", "HEAD")).status).toBe(204);
    const banned = await authed("policy=terms-node&key=bad-1");
    expect([banned.status, banned.headers["ratelimit"], banned.headers["retry-after"]]).toEqual([
      403,
      undefined,
      undefined,
    ]);
    expect((await authed("policy=terms-node&key=health-1")).status).toBe(204);
  });

  it("takes several values, decoded, in their order", async () => {
    expect((await authed("policy=pair-node&key=10.9.9.9&key=eu")).status).toBe(204);
    expect(await left("pair-node", ["10.9.9.9", "eu"])).toBe(6);
    expect((await authed("policy=seven-node&key=a%20b%2Bc")).status).toBe(204);
    expect(await left("seven-node", ["a b+c"])).toBe(6);
  });

  it.each<[string, string, string]>([
    ["nothing", "", "policy"],
    ["two policies", "policy=seven-node&policy=vault&key=a", "policy"],
    ["an unknown parameter", "policy=seven-node&key=a&app=bank", "app"],
    ["a key without a value", "policy=seven-node&key", "key[0]"],
    ["too few values", "policy=pair-node&key=a", "key"],
    ["two costs", "policy=seven-node&key=a&cost=1&cost=2", "cost"],
    ...["-0", "-1", "1.5", "NaN", "1e9", "0x10", "%201", "", "2147483649", "9".repeat(400)].map(
      (cost): [string, string, string] => [
        `cost "${cost.slice(0, 12)}"`,
        `policy=seven-node&key=a&cost=${cost}`,
        "cost",
      ],
    ),
  ])("%s is refused with its place", async (_, query, path) => {
    const { status, body } = await authed(query);
    expect(status).toBe(400);
    expect(JSON.parse(body)).toMatchObject({ code: "invalid-request", errors: [{ path }] });
  });

  it("refuses very many parameters, another app's policy and other methods", async () => {
    expect((await authed(`policy=seven-node${"&key=a".repeat(200)}`)).status).toBe(400);
    expect((await authed("policy=vault&key=a")).status).toBe(404);
    const answer = await authed("policy=seven-node&key=a", "POST");
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD"]);
  });
});

it("docs/operations.md has every code of the API, with its status, and no other", () => {
  const project = resolve(import.meta.dirname, "../..");
  const code = readFileSync(join(project, "gateway/src/check-api/check-errors.ts"), "utf8");
  const [, table] = /const statuses[^{]*\{(.*?)\};/s.exec(code) ?? [];
  const inCode = [...(table as string).matchAll(/"?([a-z-]+)"?: (\d+)/g)].map(
    ([, name, status]) => `${name} ${status}`,
  );
  const [, section] = /^## Check API$(.*?)^## /ms.exec(readFileSync(join(project, "docs/operations.md"), "utf8")) ?? [];
  const inDocs = [...(section as string).matchAll(/^\| `([a-z-]+)` \| (\d+) \|/gm)].map(
    ([, name, status]) => `${name} ${status}`,
  );
  expect(inDocs).toEqual(inCode);
});
