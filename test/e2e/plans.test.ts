// Plans at the real gateway: limits by what a client has bought, counters that it keeps when it moves to another plan, on a node and in Redis.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { auth, check as checkAs, post } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";

const daily = (quota: number) => ({ name: "daily", algorithm: "fixed-window", quota, window: "1d" });
const burst = { name: "burst", algorithm: "token-bucket", quota: 1, window: "1h", burst: 6 };
const hourly = { name: "hourly", algorithm: "sliding-window", quota: 2, window: "1h" };

const document = (name: string, more: object) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-user"],
  plans: { free: [daily(3)], pro: [daily(8), burst], trial: [hourly] },
  planBy: "header:x-plan",
  defaultPlan: "free",
  ...more,
});

const kinds = [
  { name: "on-node", more: { scope: "node" } },
  { name: "in-redis", more: { scope: "cluster" } },
  { name: "in-redis-though-leased", more: { scope: "cluster", consistency: "leased" } },
];

let system: System;
beforeAll(async () => {
  system = await System.start({ workers: 2, redis: true });
  for (const { name, more } of kinds) await system.put(document(name, more));
});
afterAll(() => system?.stop());

const askAs = (path: string, user: string, plan?: string) =>
  ask(`${system.gateways[0]?.url}${path}`, {
    headers: { "x-user": user, ...(plan === undefined ? {} : { "x-plan": plan }) },
  });

async function statuses(path: string, user: string, plans: readonly (string | undefined)[]): Promise<number[]> {
  const seen: number[] = [];
  for (const plan of plans) seen.push((await askAs(path, user, plan)).status);
  return seen;
}

describe.each(kinds)("plans $name", ({ name }) => {
  const path = `/${name}`;

  it("give each client the limits of its plan, and say so", async () => {
    const free = await askAs(path, "ann", "free");
    expect(free.headers).toMatchObject({ "ratelimit-policy": '"daily";q=3;w=86400', "x-ratelimit-remaining": "2" });
    const pro = await askAs(path, "bob", "pro");
    expect(pro.headers["ratelimit-policy"]).toBe('"daily";q=8;w=86400, "burst";q=6;w=21600');
    const trial = await askAs(path, "cid", "trial");
    expect(trial.headers["ratelimit-policy"]).toBe('"hourly";q=2;w=3600');
  });

  it("keep what a client has used when it moves to a larger plan and back", async () => {
    const spent = await statuses(path, "dora", ["free", "free", "free", "free"]);
    expect(spent).toEqual([200, 200, 200, 429]);
    // 3 of the 8 of the day are used; the bucket is only the larger plan's.
    const upgraded = await askAs(path, "dora", "pro");
    expect([upgraded.status, upgraded.headers["ratelimit"]]).toEqual([200, expect.stringMatching(/^"daily";r=4;/)]);
    expect(await statuses(path, "dora", ["pro", "pro", "pro", "pro", "pro"])).toEqual([200, 200, 200, 200, 429]);
    expect(await statuses(path, "dora", ["free"])).toEqual([429]);
  });

  it("count a limit that only one plan has by itself", async () => {
    expect(await statuses(path, "eve", ["trial", "trial", "trial"])).toEqual([200, 200, 429]);
    expect(await statuses(path, "eve", ["free", "free", "free", "free"])).toEqual([200, 200, 200, 429]);
  });

  it("are the default one for requests that name none, or one that there is not", async () => {
    const plans = [undefined, "gold", "constructor", "__proto__"];
    expect(await statuses(path, "fred", plans)).toEqual([200, 200, 200, 429]);
    const twice = await ask(`${system.gateways[0]?.url}${path}`, {
      headers: { "x-user": "gus", "x-plan": ["pro", "free"] as unknown as string },
    });
    expect(twice.headers["ratelimit-policy"]).toBe('"daily";q=3;w=86400');
  });

  it("admit exactly the quota of a counter that requests of two plans use at once", async () => {
    const both = Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? "free" : "pro"));
    const answers = await Promise.all(both.map((plan) => askAs(path, "hal", plan)));
    const admitted = answers.filter(({ status }) => status === 200).length;
    // The larger plan's quota is 8, of which its own bucket allows 6: so free requests took up to 3 of them.
    expect(admitted).toBeGreaterThanOrEqual(6);
    expect(admitted).toBeLessThanOrEqual(8);
  });
});

describe.each(["node", "cluster"])("buckets of scope %s that fill in different times", (scope) => {
  it("admit no more than both plans hold, whatever the order of requests", async () => {
    const name = `turns-${scope}`;
    const bucket = (size: number) => ({ name: "b", algorithm: "token-bucket", quota: 1, window: "1d", burst: size });
    await system.put(document(name, { scope, plans: { free: [bucket(4)], pro: [bucket(8)] } }));
    const turns = Array.from({ length: 40 }, (_, i) => (i % 3 === 2 ? "free" : "pro"));
    const seen = await statuses(`/${name}`, "ida", turns);
    expect(seen.filter((status) => status === 200)).toHaveLength(12);
  });
});

describe.each(["node", "cluster"])("the counters of a consumer with limits of its own, of scope %s", (scope) => {
  it("are read, topped up and reset by these limits", async () => {
    const name = `own-${scope}`;
    await system.put(document(name, { scope, planBy: "consumer", plans: { free: [daily(3)], pro: [daily(8)] } }));
    const own = { plan: "pro", overrides: { [name]: [daily(5)] } };
    await system.api("PUT", "/apps/default/consumers/jan?wait=30s", own);
    expect(await statuses(`/${name}`, "jan", Array(6).fill(undefined))).toEqual([200, 200, 200, 200, 200, 429]);
    const limitsOf = async (method: string, path: string, body?: object) => {
      const answer = JSON.parse((await system.api(method, `/apps/default/counters${path}`, body)).body);
      return answer.limits ?? answer.gateways[0].limits;
    };
    const query = `?policy=${name}&key=jan`;
    expect(await limitsOf("GET", query)).toMatchObject([{ name: "daily", limit: 5, remaining: 0 }]);
    expect(await limitsOf("GET", `${query}&plan=pro`)).toMatchObject([{ limit: 8, remaining: 3 }]);
    const added = await limitsOf("POST", "", { policy: name, key: ["jan"], units: 2 });
    expect(added).toMatchObject([{ limit: 5, remaining: 2 }]);
    expect(await statuses(`/${name}`, "jan", Array(3).fill(undefined))).toEqual([200, 200, 429]);
    expect(await limitsOf("DELETE", query)).toMatchObject([{ limit: 5, remaining: 5 }]);
  });
});

describe("the check API and the counters of a policy with plans", () => {
  const policy = {
    name: "sms",
    key: ["header:x-user"],
    plans: { free: [daily(1)], pro: [daily(5)] },
    planBy: "header:x-plan",
    defaultPlan: "free",
    scope: "cluster",
  };
  const byKey = { ...policy, name: "by-key", key: ["header:x-plan", "header:x-user"] };
  let token: string;
  beforeAll(async () => {
    await system.put(policy);
    await system.put(byKey);
    const made = await system.api("POST", "/tokens?wait=30s", { name: "caller", app: "default", role: "caller" });
    token = JSON.parse(made.body).token;
  });

  async function check(...checks: object[]) {
    const answer = await ask(`${system.gateways[0]?.privateUrl}/sluice/v1/check`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ checks }),
    });
    return JSON.parse(answer.body);
  }

  it("takes the plan that the key names, else the one that the caller does, and else the default one", async () => {
    expect(await check({ policy: "sms", key: ["ann"], plan: "pro" })).toMatchObject({
      results: [{ limit: 5, remaining: 4 }],
    });
    expect(await check({ policy: "sms", key: ["ann"] })).toMatchObject({ allowed: false, results: [{ limit: 1 }] });
    expect(await check({ policy: "by-key", key: ["pro", "ann"] })).toMatchObject({ results: [{ limit: 5 }] });
    expect(await check({ policy: "by-key", key: ["gold", "ann"] })).toMatchObject({ results: [{ limit: 1 }] });
  });

  it("takes no plan from the caller where the policy has another way to find it, and charges nothing", async () => {
    const shared = { ...policy, name: "shared", sharedWith: ["billing"] };
    const tiers = { ...policy, name: "tiers", planBy: "consumer", plans: { free: [daily(2)], pro: [daily(9)] } };
    const slots = (quota: number) => [{ name: "slots", algorithm: "concurrency", quota, ttl: "5m" }];
    const seats = { ...tiers, name: "seats", plans: { free: slots(1), pro: slots(9) } };
    for (const one of [shared, tiers, seats]) await system.put(one);
    await system.api("PUT", "/apps/billing", { realm: null });
    const made = await system.api("POST", "/tokens?wait=30s", { name: "other", app: "billing", role: "caller" });
    const other = JSON.parse(made.body).token;
    const own = { plan: "pro", overrides: { tiers: [daily(3)] } };
    await system.api("PUT", "/apps/default/consumers/lea?wait=30s", own);
    const of = (as: string) => ({ app: "", token: as });
    const { privateUrl } = system.gateways[0] as { privateUrl: string };
    const refused = async (as: string, asked: { policy: string; key: string[] }, expected: string) => {
      const answers = [await post(privateUrl, of(as), JSON.stringify({ checks: [{ ...asked, plan: "pro" }] }))];
      const key = asked.key.map((value) => `&key=${value}`).join("");
      answers.push(await auth(privateUrl, of(as), `policy=${asked.policy}${key}&plan=pro`));
      for (const [place, { status, body }] of answers.entries()) {
        const errors = [{ path: ["checks[0].plan", "plan"][place], expected: `nothing: ${expected}`, got: '"pro"' }];
        expect([status, JSON.parse(body)]).toMatchObject([400, { code: "invalid-request", errors }]);
      }
    };
    await refused(token, { policy: "tiers", key: ["lea"] }, "the plan is that of the consumer, whom the key names");
    await refused(token, { policy: "by-key", key: ["free", "lea"] }, "key[0] names the plan");
    await refused(
      other,
      { policy: "default/shared", key: ["lea"] },
      "app default decides about the plans of its policies",
    );
    const hold = await ask(`${privateUrl}/sluice/v1/hold`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ policy: "seats", key: ["lea"], plan: "pro" }),
    });
    expect([hold.status, JSON.parse(hold.body).errors]).toMatchObject([400, [{ path: "plan" }]]);
    // None of them charged anything, and each counter has the limits that its policy says.
    const remaining = (as: string, name: string, key: string[]) =>
      checkAs(privateUrl, of(as), [{ policy: name, key }]).then(({ results }) => results[0]?.["remaining"]);
    expect(await remaining(token, "tiers", ["lea"])).toBe(2);
    expect(await remaining(token, "by-key", ["free", "lea"])).toBe(0);
    expect(await remaining(other, "default/shared", ["lea"])).toBe(0);
  });

  it("asks for no slot, which nobody would free, whatever the plan that the caller names", async () => {
    const slots = (quota: number) => ({ name: "slots", algorithm: "concurrency", quota, ttl: "5m" });
    const plans = { free: [slots(1)], pro: [daily(5)] };
    await system.put({ ...policy, name: "held", plans, overrides: [{ key: ["vip"], limits: [slots(2)] }] });
    expect(await check({ policy: "held", key: ["ann"], plan: "pro" })).toMatchObject({ allowed: true });
    expect(await check({ policy: "held", key: ["ann"] })).toMatchObject({ code: "policy-not-askable" });
    // The override has the limits of the default plan.
    expect(await check({ policy: "held", key: ["vip"], plan: "pro" })).toMatchObject({ code: "policy-not-askable" });
  });

  it("refuses a plan that there is not, and charges nothing", async () => {
    const answer = await check({ policy: "sms", key: ["bob"], plan: "gold" });
    expect(answer.errors).toEqual([
      { path: "checks[0].plan", expected: "the name of one of the policy's plans", got: '"gold"' },
    ]);
    expect(await check({ policy: "sms", key: ["bob"] })).toMatchObject({ results: [{ remaining: 0 }] });
  });

  it("reads and tops up the counters of a plan, and resets those of all", async () => {
    const read = async (search: string) => {
      const { body } = await system.api("GET", `/apps/default/counters?policy=sms&key=ann${search}`);
      return JSON.parse(body);
    };
    expect((await read("&plan=pro")).limits).toMatchObject([{ name: "daily", limit: 5, used: 1, remaining: 4 }]);
    expect((await read("")).limits).toMatchObject([{ name: "daily", limit: 1, remaining: 0 }]);
    expect((await read("&plan=gold")).errors).toEqual([
      { path: "plan", expected: "one of the policy's plans: free, pro", got: '"gold"' },
    ]);
    await system.api("DELETE", "/apps/default/counters?policy=sms&key=ann");
    expect((await read("&plan=pro")).limits).toMatchObject([{ used: 0 }]);
  });
});
