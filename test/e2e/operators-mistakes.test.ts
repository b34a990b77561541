// Operators and owners make mistakes in documents, and in what stands behind these. The tables show what Sluice says of each, where, and how
// soon. test/e2e/sluice-check.test.ts has the mistakes in nginx.conf and in the environment.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { gatewayToken, System } from "../fixtures/servers/system.ts";
import { until, untilPasses } from "../fixtures/until.ts";

let system: System;
let withoutRedis: LoneGateway;
beforeAll(async () => {
  system = await System.start({ redis: true });
  const env = {
    SLUICE_CONTROL_URL: system.controlUrl,
    SLUICE_GATEWAY_TOKEN: gatewayToken,
    SLUICE_GATEWAY_ID: "no-redis",
  };
  withoutRedis = await LoneGateway.start({ env });
  await until(
    "both are connected",
    async () => JSON.parse((await system.api("GET", "/gateways")).body).gateways.length === 2,
  );
  expect((await system.api("PUT", "/apps/default/policies/users", forConsumers)).status).toBe(201);
  expect((await system.api("PUT", "/apps/checks", {})).status).toBe(201);
});
afterAll(async () => {
  await withoutRedis?.stop();
  await system?.stop();
});

const limit = { algorithm: "fixed-window", quota: 5, window: "1h" };
const policy = { match: { paths: ["/a"] }, key: ["ip"], scope: "node", limits: [limit] };
const { limits: _, ...unlimited } = policy;
const plans = { free: [limit], pro: [{ ...limit, quota: 50 }] };
const forConsumers = { ...unlimited, key: ["header:x-user"], plans, planBy: "consumer", defaultPlan: "free" };

interface Mistake {
  readonly mistake: string;
  readonly method?: "PUT" | "POST";
  readonly path: string;
  readonly document: object;
}

/** @returns the problems of a refused document, or the warnings of one that is stored, each on a line */
async function answerTo(
  { method = "PUT", path, document }: Mistake,
  query = "",
): Promise<[status: number, said: string]> {
  const { status, body } = await system.api(method, `${path}${query}`, document);
  const { errors, warnings, detail } = JSON.parse(body) as Record<
    string,
    Record<string, string>[] | string | undefined
  >;
  const problems = errors ?? warnings ?? [];
  if (typeof problems === "string" || problems.length === 0) return [status, `${detail}`];
  return [status, problems.map(({ path: at, expected, got }) => `${at} ${expected} ${got}`).join("\n")];
}

const policyAt = "/apps/default/policies/a";
const consumerAt = "/apps/default/consumers/ann";
const daily = { ...limit, window: "1d" };
/** `said` is a part of the problems of a refused document, or of the warnings of one that is stored: `path expected got`. */
const mistakes: (Mistake & { readonly said: RegExp; readonly status?: 415 | 400 })[] = [
  {
    mistake: "a field of a policy",
    path: policyAt,
    document: { ...policy, limts: [limit] },
    status: 400,
    said: /^limts no such field; known here: .*\blimits\b/,
  },
  {
    mistake: "a window",
    path: policyAt,
    document: { ...policy, limits: [{ ...limit, window: "1 hour" }] },
    status: 400,
    said: /^limits\[0\]\.window a duration from 1ms to 366d.* "1 hour"$/,
  },
  {
    mistake: "an algorithm",
    path: policyAt,
    document: { ...policy, limits: [{ ...limit, algorithm: "tokenbucket" }] },
    status: 400,
    said: /^limits\[0\]\.algorithm one of token-bucket, .* "tokenbucket"$/,
  },
  {
    mistake: "a part of a key",
    path: policyAt,
    document: { ...policy, key: ["headr:x-user"] },
    status: 400,
    said: /^key\[0\] a key part: .*"header:NAME".* "headr:x-user"$/,
  },
  {
    mistake: "a default plan",
    path: policyAt,
    document: { ...forConsumers, defaultPlan: "fre" },
    status: 400,
    said: /^defaultPlan one of the plans: free, pro "fre"$/,
  },
  {
    mistake: "a network of a ban",
    method: "POST",
    path: "/apps/default/bans",
    document: { cidr: "10.0.0.0/33", for: "1h" },
    status: 400,
    said: /^cidr a network like .* "10\.0\.0\.0\/33"$/m,
  },
  {
    mistake: "a host of a realm",
    path: "/apps/checks",
    document: { realm: { hosts: ["https://a.example"] } },
    status: 400,
    said: /^realm\.hosts\[0\] .* "https:\/\/a\.example"$/,
  },
  {
    mistake: "a role of a token",
    method: "POST",
    path: "/tokens",
    document: { name: "t", app: "default", role: "vewer" },
    status: 400,
    said: /^role one of owner, editor, viewer, caller "vewer"$/,
  },
  {
    mistake: "the type of a list of networks",
    path: "/apps/default/networks/offices",
    document: { networks: ["10.0.0.0/8"] },
    status: 415,
    said: /^Content-Type: expected text\/plain, got "application\/json"\.$/,
  },
  {
    mistake: "a policy of limits alone",
    path: policyAt,
    document: { limits: [limit] },
    said: /^key a key, .* nothing: every request of every client uses one counter/,
  },
  {
    mistake: "no scope, with two gateways",
    path: policyAt,
    document: { ...policy, scope: undefined },
    said: /^scope cluster, .* nothing: each of the 2 connected gateways counts by itself/,
  },
  {
    mistake: "a key that clients may leave out",
    path: policyAt,
    document: { ...policy, key: ["header:x-user"] },
    said: /^onMissingKey deny or shared; or skip, .* nothing: /,
  },
  {
    mistake: "a list of networks that does not exist",
    path: policyAt,
    document: { ...policy, exempt: { cidrs: ["@offces"] } },
    said: /^exempt\.cidrs\[0\] .*"@offces"/,
  },
  {
    mistake: "scope cluster, and a gateway without Redis",
    path: policyAt,
    document: { ...policy, scope: "cluster" },
    said: /^scope .*no-redis/,
  },
  {
    mistake: "leases of a limit that cannot be leased",
    path: policyAt,
    document: { ...policy, scope: "node", consistency: "leased" },
    said: /^consistency /,
  },
  {
    mistake: "a policy of an app without a realm",
    path: "/apps/checks/policies/a",
    document: { ...policy, mode: "shadow" },
    said: /^match a realm of hosts and paths, .* none: the policy matches no traffic/,
  },
  {
    mistake: "a plan of a consumer",
    path: consumerAt,
    document: { plan: "entreprise" },
    said: /^plan a plan of a policy with planBy: consumer, like free, pro "entreprise", for which the default plan holds$/,
  },
  {
    mistake: "a policy of a consumer's own limits",
    path: consumerAt,
    document: { plan: "pro", overrides: { consumer: [limit] } },
    said: /^overrides\.consumer /,
  },
  {
    mistake: "a name of a consumer's own limit",
    path: consumerAt,
    document: { plan: "pro", overrides: { users: [{ ...limit, name: "hourly" }] } },
    said: /^overrides\.users\[0\]/,
  },
  {
    mistake: "a window of a consumer's own limit",
    path: consumerAt,
    document: { plan: "pro", overrides: { users: [daily] } },
    said: /^overrides\.users\[0\] the window, .*, with which the consumer.s counter begins anew$/,
  },
];

describe("the answer says at once what is wrong with", () => {
  it.each(mistakes)("$mistake", async ({ said, status, ...mistake }) => {
    // The control plane knows a second after a gateway has connected that it lacks Redis.
    await untilPasses(async () => {
      const [answered, words] = await answerTo(mistake);
      expect([answered < 300 ? undefined : answered, words]).toEqual([status, expect.stringMatching(said)]);
    });
    if (status !== undefined) return;
    const [refused, errors] = await answerTo(mistake, "?strict=true");
    expect([refused, errors]).toEqual([400, expect.stringMatching(said)]);
  });
});

it("the alarms name the gateway without Redis a second after a policy needs one", async () => {
  await system.put({ ...policy, name: "fleet", scope: "cluster" });
  await untilPasses(async () => {
    const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
    const alarms = Object.fromEntries(gateways.map(({ id, alarm }: Record<string, string>) => [id, alarm]));
    expect(alarms).toEqual({ "gateway-1": null, "no-redis": "redis-missing" });
    const { degraded } = JSON.parse((await ask(`${system.controlUrl}/readyz`)).body);
    expect(degraded).toEqual(["Gateways have no Redis for policies of scope cluster: see alarms."]);
  });
});
