// A policy that several apps share (sharedWith): their callers check and charge one counter, and others hear that there is no such policy.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { auth, type Caller, callerOf, check, post } from "../fixtures/clients/check-api-client.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

const shop: Caller = { app: "shop", token: "a-token-of-the-shop" };
const billing: Caller = { app: "billing", token: "a-token-of-billing" };
const crm: Caller = { app: "crm", token: "a-token-of-the-crm" };
const limits = [{ algorithm: "fixed-window", quota: 4, window: "366d" }];

let redis: RedisServer;
let gateway: LoneGateway;
beforeAll(async () => {
  redis = new RedisServer(await freePort());
  await redis.start();
  const shared = (name: string, more: object) => ({
    name,
    match: { paths: ["/elsewhere"] },
    key: ["header:x-account"],
    limits,
    sharedWith: ["billing"],
    ...more,
  });
  gateway = await LoneGateway.start({
    policies: [],
    otherPolicies: {
      shop: [
        shared("node", {}),
        shared("exact", { scope: "cluster" }),
        shared("leased", { scope: "cluster", consistency: "leased", limits: [{ ...limits[0], quota: 4 }] }),
        shared("watched", { mode: "shadow" }),
        shared("fewer", { overrides: [{ key: ["small"], limits: [{ ...limits[0], quota: 1 }] }] }),
        { ...shared("own", {}), sharedWith: undefined },
      ],
      billing: [{ name: "node", match: { paths: ["/elsewhere"] }, key: ["header:x-account"], limits }],
    },
    callers: [callerOf(shop), callerOf(billing), callerOf(crm)],
    bans: [{ id: "1", app: "shop", policy: "node", key: ["mallory"], untilSeconds: 4_000_000_000 }],
    env: { SLUICE_REDIS_URL: redis.url },
  });
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
});

const remaining = async (caller: Caller, policy: string, key = "acme") => {
  const { allowed, results } = await check(gateway.privateUrl, caller, [{ policy, key: [key] }]);
  expect(results[0]?.["policy"]).toBe(policy);
  return allowed ? results[0]?.["remaining"] : "refused";
};

describe.each(["node", "exact", "leased"])("%s", (name) => {
  it("is one counter for the callers of both apps", async () => {
    expect(await remaining(shop, name)).toBe(3);
    expect(await remaining(billing, `shop/${name}`)).toBe(2);
    expect(await remaining(billing, `shop/${name}`)).toBe(1);
    expect(await remaining(shop, name)).toBe(0);
    expect(await remaining(billing, `shop/${name}`)).toBe("refused");
    expect(await remaining(shop, name)).toBe("refused");
  });
});

it("is not the caller's own policy of that name, which can be in the same request", async () => {
  const { results } = await check(gateway.privateUrl, billing, [
    { policy: "node", key: ["both"] },
    { policy: "shop/node", key: ["both"] },
    { policy: "billing/node", key: ["both"] },
  ]);
  // An app may name itself, too: the checks of one policy and key are decided together.
  expect(results).toMatchObject([
    { policy: "node", remaining: 2 },
    { policy: "shop/node", remaining: 3 },
    { policy: "node", remaining: 2 },
  ]);
});

it("applies overrides, bans and shadow mode to all callers alike", async () => {
  expect(await remaining(billing, "shop/fewer", "small")).toBe(0);
  expect(await remaining(shop, "fewer", "small")).toBe("refused");
  const banned = await check(gateway.privateUrl, billing, [{ policy: "shop/node", key: ["mallory"] }]);
  expect(banned.results).toEqual([{ policy: "shop/node", allowed: false, reason: "banned" }]);
  const watched = await check(gateway.privateUrl, billing, [{ policy: "shop/watched", key: ["acme"] }]);
  expect(watched.results).toEqual([{ policy: "shop/watched", allowed: true, reason: "shadow" }]);
});

it("hears reports of its own app's callers alone: a key could owe units for years", async () => {
  const report = (policy: string) => JSON.stringify({ checks: [{ policy, key: ["reported"], cost: 1, report: true }] });
  const refused = await post(gateway.privateUrl, billing, report("shop/node"));
  expect([refused.status, JSON.parse(refused.body)]).toEqual([
    400,
    expect.objectContaining({
      code: "policy-not-askable",
      errors: [
        {
          path: "checks[0].policy",
          expected: "a policy of app billing: those of other apps can be asked, and nothing can be reported to them",
          got: '"shop/node"',
        },
      ],
    }),
  ]);
  expect((await post(gateway.privateUrl, shop, report("node"))).status).toBe(200);
  expect(await remaining(billing, "shop/node", "reported")).toBe(2);
});

it("can be asked by auth_request", async () => {
  const statuses: number[] = [];
  for (let n = 0; n < 5; n++) {
    statuses.push((await auth(gateway.privateUrl, billing, "policy=shop/node&key=auth")).status);
  }
  expect(statuses).toEqual([204, 204, 204, 204, 429]);
});

it.each([
  ["of an app that it is not shared with", crm, "shop/node"],
  ["of an app, of a policy that nobody shares", billing, "shop/own"],
  ["that name a policy that does not exist", billing, "shop/none"],
  ["that name an app that does not exist", billing, "nobody/node"],
  ["that leave the app out", crm, "exact"],
  ["that write more than an app and a policy", billing, "shop/node/"],
])("is unknown to callers %s, and nothing is charged", async (_, caller, policy) => {
  const checks = [{ policy, key: ["untouched"] }];
  const { status, body } = await post(gateway.privateUrl, caller, JSON.stringify({ checks }));
  expect(status).toBe(404);
  expect(JSON.parse(body)).toMatchObject({
    code: "policy-not-found",
    errors: [
      {
        path: "checks[0].policy",
        expected: `a policy of app ${caller.app}, or APP/POLICY of one that is shared with it`,
        got: JSON.stringify(policy),
      },
    ],
  });
  expect((await auth(gateway.privateUrl, caller, `policy=${policy}&key=untouched`)).status).toBe(404);
});

it("has charged nothing for those who may not ask", async () => {
  expect(await remaining(shop, "node", "untouched")).toBe(3);
  expect(await remaining(shop, "own", "untouched")).toBe(3);
});
