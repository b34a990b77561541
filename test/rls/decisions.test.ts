// What Envoy hears of descriptors, in both scopes, from a real gateway by the real service. The clock of nginx and Redis stands still, so
// that the numbers are exact.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { descriptor, type EnvoyDescriptor } from "../fixtures/clients/envoy-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { fullHour } from "../fixtures/documents/worked-cases.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RateLimitService } from "../fixtures/servers/rate-limit-service.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";
import { until } from "../fixtures/until.ts";

const scopes = ["node", "cluster"] as const;
const envoy: Caller = { app: "default", token: "a-token-of-envoy" };
/** A bucket of 3 units, refilled by one a minute. */
const three = { algorithm: "token-bucket", quota: 1, window: "1m", burst: 3 };
const byUser = { match: { paths: ["/elsewhere"] }, key: ["header:x-user"], limits: [three] };
const inBothScopes = (name: string, document: object) =>
  scopes.map((scope) => ({ name: `${scope}-${name}`, scope, ...byUser, ...document }));

const map = `
rules:
  - domain: mapped
    entries: [{ key: plan, value: gold }, remote_address, user]
    policy: node-pair
    key: [user, remote_address]
  - entries: [{ key: plan, value: free }, remote_address]
    policy: node-address
  - entries: [plan, remote_address]
    policy: node-pair
`;

const clock = new SetClock(fullHour);
let redis: RedisServer;
let gateway: LoneGateway;
let service: RateLimitService;
let mapped: RateLimitService;
beforeAll(async () => {
  redis = new RedisServer(await freePort(), clock.redisEnv);
  await redis.start();
  gateway = await LoneGateway.start({
    workers: 2,
    clock,
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "10000" },
    policies: [
      ...inBothScopes("user", {}),
      ...inBothScopes("several", {}),
      ...inBothScopes("costly", { cost: 2 }),
      ...inBothScopes("pair", { key: ["header:x-user", "ip"] }),
      ...inBothScopes("by-user", { key: ["header:x-user", "ip"] }),
      ...inBothScopes("address", { key: ["ip"] }),
      ...inBothScopes("all", { key: [] }),
      ...inBothScopes("shadow", { mode: "shadow", limits: [{ ...three, burst: 1 }] }),
      ...inBothScopes("off", { mode: "off", limits: [{ ...three, burst: 1 }] }),
      {
        ...byUser,
        name: "cluster-for-ever",
        scope: "cluster",
        onStoreFailure: "deny",
        limits: [{ algorithm: "fixed-window", quota: 9, window: "lifetime" }],
      },
      ...inBothScopes("slots", { limits: [{ algorithm: "concurrency", quota: 1 }] }),
      ...inBothScopes("deny", { onMissingKey: "deny" }),
    ],
    otherPolicies: { bank: [{ name: "shared", ...byUser, sharedWith: ["default"] }] },
    bans: scopes.map((scope) => ({
      id: scope,
      app: "default",
      policy: `${scope}-user`,
      keyPattern: ["bad-*"],
      untilSeconds: fullHour + 3600,
    })),
    callers: [callerOf(envoy)],
  });
  const asks = { gateway: gateway.privateUrl, token: envoy.token };
  service = await RateLimitService.start({ ...asks, env: { SLUICE_RLS_HEADERS: "true" } });
  mapped = await RateLimitService.start({ ...asks, map });
});
afterAll(async () => {
  await service?.stop();
  await mapped?.stop();
  await gateway?.stop();
  await redis?.stop();
  clock.remove();
});

const ask1 = async (domain: string, one: EnvoyDescriptor, hitsAddend = 0, of = service) => {
  const answer = await of.client.ask({ domain, descriptors: [one], hitsAddend });
  expect(answer.statuses).toHaveLength(1);
  const [status] = answer.statuses;
  expect(status?.code).toBe(answer.overallCode);
  return { code: answer.overallCode, left: status?.limitRemaining, limit: status?.currentLimit, status, answer };
};
/** @returns what remains to a key, without charging it */
const left = async (policy: string, key: readonly string[]) => {
  const { results } = await check(gateway.privateUrl, envoy, [{ policy, key, cost: 2147483648 }]);
  return results[0]?.["remaining"];
};

describe.each(scopes)("in scope %s", (scope) => {
  it("admits what the policy has, and says what remains", async () => {
    const ann = descriptor("user", "ann");
    const { answer, status } = await ask1(scope, ann);
    expect(answer.overallCode).toBe("OK");
    expect(status).toMatchObject({
      code: "OK",
      currentLimit: { name: `${scope}-user`, requestsPerUnit: 3, unit: "UNKNOWN" },
      limitRemaining: 2,
      durationUntilReset: { seconds: "60" },
    });
    expect(await ask1(scope, ann)).toMatchObject({ code: "OK", left: 1 });
    expect(await ask1(scope, ann)).toMatchObject({ code: "OK", left: 0 });
    expect(await ask1(scope, ann)).toMatchObject({ code: "OVER_LIMIT", left: 0 });
    expect(await ask1(scope, descriptor("user", "bob"))).toMatchObject({ code: "OK", left: 2 });
  });

  it("adds headers with the figures, if they are turned on", async () => {
    const headers = async (hits: number, of: RateLimitService) => {
      const { answer } = await ask1(scope, descriptor("user", "header"), hits, of);
      return answer.responseHeadersToAdd.map(({ key, value }) => `${key}: ${value}`);
    };
    expect(await headers(2, service)).toEqual(["RateLimit-Limit: 3", "RateLimit-Remaining: 1", "RateLimit-Reset: 120"]);
    expect(await headers(2, service)).toEqual([
      "RateLimit-Limit: 3",
      "RateLimit-Remaining: 1",
      "RateLimit-Reset: 120",
      "Retry-After: 60",
    ]);
    expect(await headers(1, mapped)).toEqual([]);
  });

  it("charges the hits of the request, and those of a descriptor instead", async () => {
    const one = descriptor("user", `hits`);
    expect(await ask1(scope, one, 2)).toMatchObject({ code: "OK", left: 1 });
    expect(await ask1(scope, { ...one, hitsAddend: 1 }, 2)).toMatchObject({ code: "OK", left: 0 });
    expect(await ask1(scope, descriptor("user", "too many"), 4)).toMatchObject({ code: "OVER_LIMIT", left: 3 });
    expect(await ask1(scope, { ...descriptor("user", "two"), hitsAddend: 2 })).toMatchObject({ code: "OK", left: 1 });
  });

  it("only looks when a descriptor has 0 hits", async () => {
    const look = { ...descriptor("user", "looked at"), hitsAddend: 0 };
    for (let i = 0; i < 5; i++) expect(await ask1(scope, look, 3)).toMatchObject({ code: "OK", left: 3 });
    await ask1(scope, descriptor("user", "looked at"), 3);
    expect(await ask1(scope, look)).toMatchObject({ code: "OVER_LIMIT", left: 0 });
  });

  it("charges the policy's own cost when no hits are said", async () => {
    expect(await ask1(scope, descriptor("costly", "x"))).toMatchObject({ code: "OK", left: 1 });
    expect(await ask1(scope, descriptor("costly", "x"), 1)).toMatchObject({ code: "OK", left: 0 });
  });

  it("decides and charges each descriptor by itself, and refuses the request if one refuses", async () => {
    const of = (name: string) => descriptor("several", name);
    await service.client.ask({ domain: scope, descriptors: [of("full")], hitsAddend: 3 });
    const descriptors = [of("free"), of("full"), descriptor("nothing", "x"), of("free")];
    const answer = await service.client.ask({ domain: scope, descriptors });
    expect(answer.overallCode).toBe("OVER_LIMIT");
    expect(answer.statuses.map(({ code }) => code)).toEqual(["OK", "OVER_LIMIT", "OK", "OK"]);
    expect(answer.statuses.map(({ limitRemaining }) => limitRemaining)).toEqual([2, 0, 0, 1]);
    expect(await left(`${scope}-several`, ["free"])).toBe(1);
  });

  it("refuses whom somebody has banned, without figures", async () => {
    expect(await ask1(scope, descriptor("user", "bad-guy"))).toMatchObject({ code: "OVER_LIMIT", limit: null });
  });

  it.each(["shadow", "off"])("admits everybody by a policy that is %s, without figures", async (mode) => {
    for (let i = 0; i < 3; i++)
      expect(await ask1(scope, descriptor(mode, "x"))).toMatchObject({ code: "OK", limit: null });
  });

  it("lets onMissingKey decide about an empty value", async () => {
    expect(await ask1(scope, descriptor("user", ""))).toMatchObject({ code: "OK", limit: null });
    expect(await ask1(scope, descriptor("deny", ""))).toMatchObject({ code: "OVER_LIMIT", limit: null });
  });

  it("shares its counters with everybody who asks the gateway", async () => {
    const checks = [{ policy: `${scope}-user`, key: ["shared"], cost: 2 }];
    await check(gateway.privateUrl, envoy, checks);
    expect(await ask1(scope, descriptor("user", "shared"))).toMatchObject({ code: "OK", left: 0 });
  });
});

it("leaves out the reset of a total for ever", async () => {
  const { status } = await ask1("cluster", descriptor("for_ever", "x"));
  expect(status).toMatchObject({ limitRemaining: 8, durationUntilReset: null });
});

describe("the rule", () => {
  it("takes the domain and the keys as the policy's name, and the values as its key", async () => {
    const both = descriptor("by", "ann", "user", "192.0.2.1");
    expect(await ask1("node", both)).toMatchObject({ limit: { name: "node-by-user" }, left: 2 });
    expect(await left("node-by-user", ["ann", "192.0.2.1"])).toBe(2);
    expect((await ask1("node-by", descriptor("nobody", "ann"))).limit).toBeNull();
  });

  it("writes capitals small, and other characters as -", async () => {
    expect((await ask1("Cluster", descriptor("FOR_EVER", "names"))).limit?.name).toBe("cluster-for-ever");
    expect((await ask1("cluster", descriptor("for.ever", "names"))).limit?.name).toBe("cluster-for-ever");
  });

  it.each(["generic_key", "sluice_policy"])("takes the value of a first %s as the policy's name", async (key) => {
    const named = (...others: string[]) => ask1("any domain", descriptor(key, "node-pair", ...others));
    expect((await named("user", key, "remote_address", "192.0.2.1")).limit?.name).toBe("node-pair");
    expect(await left("node-pair", [key, "192.0.2.1"])).toBe(2);
    expect((await ask1("any", descriptor(key, "cluster-all"))).limit?.name).toBe("cluster-all");
    expect((await ask1("any", descriptor(key, "bank/shared", "user", key))).limit?.name).toBe("bank/shared");
  });

  it("does so only for the first entry", async () => {
    const answer = await ask1("node", descriptor("user", "x", "generic_key", "node-user"));
    expect(answer).toMatchObject({ code: "OK", limit: null });
  });

  it.each([
    ["a name with other characters", "node_user"],
    ["a path", "../node-user"],
    ["a name that is too long", "x".repeat(10_000)],
    ["nothing", ""],
    ["a name of JavaScript", "__proto__"],
    ["a policy of an app that does not share it", "bank/other"],
    ["no policy", "nobody-knows-it"],
  ])("does not limit %s", async (_, name) => {
    for (let i = 0; i < 5; i++) {
      expect(await ask1("any", descriptor("generic_key", name, "user", "x"))).toMatchObject({
        code: "OK",
        limit: null,
      });
    }
  });

  it("says it to the operator if the policy has another number of key values, or cannot be asked", async () => {
    await expect(ask1("any", descriptor("generic_key", "node-pair", "user", "x"))).rejects.toThrow(
      /FAILED_PRECONDITION: policy node-pair: invalid-request .* key: expected a list of 2/,
    );
    await expect(ask1("node", descriptor("slots", "x"))).rejects.toThrow(
      /FAILED_PRECONDITION: policy node-slots: policy-not-askable/,
    );
    const said = "sluice: rate limit service: policy node-slots: policy-not-askable";
    await until("it is printed", () => service.program.output.includes(said));
  });

  it("still refuses a request of which another descriptor is over the limit", async () => {
    const full = { ...descriptor("user", "over"), hitsAddend: 4 };
    const answer = await service.client.ask({ domain: "node", descriptors: [descriptor("slots", "x"), full] });
    expect(answer.overallCode).toBe("OVER_LIMIT");
    expect(answer.statuses.map(({ code }) => code)).toEqual(["UNKNOWN", "OVER_LIMIT"]);
  });
});

describe("the map", () => {
  it("chooses the policy by domain, keys and values, and the order of the key", async () => {
    const gold = (domain: string) =>
      ask1(domain, descriptor("plan", "gold", "remote_address", "192.0.2.7", "user", "map"), 0, mapped);
    expect((await gold("mapped")).limit?.name).toBe("node-pair");
    expect(await left("node-pair", ["map", "192.0.2.7"])).toBe(2);
    expect((await gold("elsewhere")).limit).toBeNull();
  });

  it("takes the first rule that matches, and leaves the fixed values out of the key", async () => {
    const of = (plan: string) => ask1("x", descriptor("plan", plan, "remote_address", "192.0.2.8"), 0, mapped);
    expect((await of("free")).limit?.name).toBe("node-address");
    expect(await left("node-address", ["192.0.2.8"])).toBe(2);
    expect((await of("other")).limit?.name).toBe("node-pair");
    expect(await left("node-pair", ["other", "192.0.2.8"])).toBe(2);
  });

  it("leaves everything else to the rule, unless it says unlimited", async () => {
    expect((await ask1("node", descriptor("user", "no rule"), 0, mapped)).limit?.name).toBe("node-user");
    const strict = await RateLimitService.start({
      gateway: gateway.privateUrl,
      token: envoy.token,
      map: '{"domains": ["edge"], "unmatched": "unlimited", "rules": []}',
    });
    try {
      expect((await ask1("edge", descriptor("generic_key", "node-user", "user", "x"), 0, strict)).limit).toBeNull();
      await expect(ask1("node", descriptor("user", "x"), 0, strict)).rejects.toThrow(
        `PERMISSION_DENIED: domain: expected one of the map's domains, got "node"`,
      );
    } finally {
      await strict.stop();
    }
  });
});

it("asks about an unknown policy once in a while, and not for each request", async () => {
  const refusals = async () => {
    const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
    return Number(/^sluice_check_requests_total\{status="404"\} (\d+)$/m.exec(body)?.[1] ?? 0);
  };
  const atFirst = await refusals();
  await ask1("node", descriptor("never_made", "x"));
  await until("the gateway has counted it", async () => (await refusals()) > atFirst);
  const before = await refusals();
  const beganAt = performance.now();
  const many = Array.from({ length: 300 }, (_, i) => ask1("node", descriptor("never_made", `${i}`)));
  expect((await Promise.all(many)).every(({ code, limit }) => code === "OK" && limit === null)).toBe(true);
  // By then the gateway has counted them. A busy machine counts fewer.
  await new Promise((resolve) => setTimeout(resolve, 200));
  // One each second, however long a busy machine takes for the calls.
  const seconds = (performance.now() - beganAt) / 1000;
  expect((await refusals()) - before).toBeLessThanOrEqual(1 + seconds);
});
