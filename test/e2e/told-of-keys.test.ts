// Everything that says what a key has left agrees with the gateway: random policies (plans, consumers, overrides, costs, both scopes) and clients
// are compared in the headers of responses, GET /counters, top-ups and resets, the check API, and the console's "Try it", forecast and list of keys.
// SLUICE_TOLD_SEED repeats a run, SLUICE_TOLD_POLICIES says how many policies it has.

import { afterAll, beforeAll, expect, it } from "vitest";
import { responseTo } from "../../console/src/forecast/headers.ts";
import { simulate } from "../../console/src/forecast/simulate.ts";
import type { Traffic } from "../../console/src/forecast/traffic.ts";
import { zonesFor } from "../../console/src/forecast/zone-transitions.ts";
import { type Trial, tryPolicy } from "../../console/src/trial/trial.ts";
import { validatePolicy } from "../../limiter/src/document/validate.ts";
import { Random } from "../deltas/random.ts";
import { check } from "../fixtures/clients/check-api-client.ts";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { type Gateway, System } from "../fixtures/servers/system.ts";
import { untilPasses } from "../fixtures/until.ts";

const seed = Number(process.env["SLUICE_TOLD_SEED"] ?? Date.now() % 1_000_000);
const policyCount = Number(process.env["SLUICE_TOLD_POLICIES"] ?? 40);
const random = new Random(seed);

/** So long that nothing comes back by itself while the test runs. */
const windows = [
  { algorithm: "token-bucket", window: "366d" },
  { algorithm: "fixed-window", window: "366d" },
  { algorithm: "fixed-window", window: "year", timezone: "Asia/Kathmandu" },
  { algorithm: "sliding-window", window: "366d" },
  { algorithm: "sliding-log", window: "366d" },
];
/** A consumer's own limits may take 4 KB. */
const mostOverrides = 8;
/** No limit holds less, so every policy accepts every cost. */
const mostCost = 3;
const users = ["stranger", "ann", "ann", "free-1", "free-2", "vip", "bob"];
const plans = ["free", "pro", "none"];

type Limits = readonly Record<string, unknown>[];
type Document = { readonly name: string } & Record<string, unknown>;

function randomPolicy(index: number): Document {
  const isOfConsumers = index % 4 === 0;
  const keys = [["header:x-user"], ["header:x-user", "ip"], ["header:x-user", "header:x-plan"]];
  const key = random.of(isOfConsumers ? keys : [...keys, []]);
  const limits = randomLimits();
  const document: Record<string, unknown> & Document = {
    name: `p${index}`,
    match: { paths: [`/p${index}`] },
    key,
    scope: random.of(["node", "cluster"]),
    mode: random.of(["enforce", "enforce", "enforce", "shadow"]),
    onMissingKey: random.of(["skip", "shared"]),
    cost: random.of([1, 2, { from: "header:x-cost", default: 1, max: mostCost }]),
    onLimit: random.of([{ action: "reject" }, { action: "tag", header: "x-over: 1" }]),
  };
  if (!isOfConsumers && random.below(3) === 0) document["limits"] = limits;
  else {
    document["plans"] = { free: limits, pro: random.of([otherQuotas(limits), randomLimits()]) };
    document["defaultPlan"] = random.of(["free", "pro"]);
    document["planBy"] = isOfConsumers ? "consumer" : "header:x-plan";
  }
  if (key.length > 0 && random.below(3) === 0) {
    const patternOf = (user: string) => key.map((_, i) => (i === 0 ? user : "*"));
    // Overrides are of the default plan.
    const usual = document["defaultPlan"] === "pro" ? (document["plans"] as { pro: Limits }).pro : limits;
    const others = random.of([{ mode: "off" }, { mode: "shadow" }, { limits: otherQuotas(usual) }]);
    document["overrides"] = [
      { key: patternOf("vip"), limits: otherQuotas(usual) },
      { key: patternOf("free-*"), ...others },
    ];
    document["exempt"] = { keys: [patternOf("bob")] };
  }
  return document;
}

function randomLimits(): Limits {
  return Array.from({ length: 1 + random.below(3) }, (_, i) => ({
    name: `limit-${i}`,
    quota: randomQuota(),
    ...random.of(windows),
  }));
}

const otherQuotas = (limits: Limits): Limits => limits.map((limit) => ({ ...limit, quota: randomQuota() }));

const randomQuota = () => mostCost + random.below(random.of([4, 12]));

/** One with a plan, one with limits of its own for some policies, one with a plan that no policy has. */
function randomConsumers(documents: readonly Document[]): { id: string; [field: string]: unknown }[] {
  const overrides: Record<string, unknown> = {};
  for (const { name, plans: ofPolicy } of documents) {
    const { free } = (ofPolicy ?? {}) as { free?: Limits };
    const hasRoom = Object.keys(overrides).length < mostOverrides;
    if (free !== undefined && hasRoom && random.below(2) === 0) overrides[name] = otherQuotas(free);
  }
  return [
    { id: "ann", plan: "pro", overrides },
    { id: "free-1", plan: "free" },
    { id: "free-2", plan: "enterprise", overrides },
  ];
}

interface ToldLimit {
  readonly name: string;
  readonly limit: number;
  readonly remaining: number;
}

let system: System;
let caller: string;
const documents = Array.from({ length: policyCount }, (_, index) => randomPolicy(index));
beforeAll(async () => {
  system = await System.start({ gateways: 2, workers: 2, redis: true });
  await system.untilConnected();
  for (const { id, ...consumer } of randomConsumers(documents)) {
    expect((await system.api("PUT", `/apps/default/consumers/${id}`, consumer)).status).toBe(201);
  }
  for (const document of documents) await system.put(document);
  const { body } = await system.api("POST", "/tokens", { name: "service", app: "default", role: "caller" });
  caller = JSON.parse(body).token;
});
afterAll(() => system?.stop());

/** A client whose requests all go to one gateway. */
interface Client {
  readonly document: Document;
  readonly gateway: Gateway;
  readonly headers: Readonly<Record<string, string>>;
}

type Counts = Extract<Trial, { outcome: "counts" }>;

/** What "Try it" says of the client's requests. */
function tried({ document, headers }: Client): Trial {
  const request = {
    method: "GET",
    host: "127.0.0.1",
    target: `/${document.name}`,
    headers: Object.entries(headers).map(([name, value]) => ({ name, value })),
    address: "127.0.0.1",
  };
  const trial = tryPolicy(document, request, Date.now());
  if (trial === undefined) throw new Error(`not valid: ${JSON.stringify(document)}`);
  return trial;
}

function queryOf({ document }: Client, { key, plan }: Counts): Record<string, unknown> {
  return { policy: document.name, key, ...(plan === undefined ? {} : { plan }) };
}

/** As "Try it" and the page of a key ask. */
function pathOf(client: Client, trial: Counts): string {
  const { policy, key, plan } = queryOf(client, trial);
  const named = plan === undefined ? "" : `&plan=${plan}`;
  return `/apps/default/counters?policy=${policy}&key=${encodeURIComponent(JSON.stringify(key))}${named}&literal=true`;
}

/** A gateway of a busy machine may answer too late. */
function countersOf(client: Client, trial: Counts): Promise<readonly ToldLimit[]> {
  return untilPasses(async () => {
    const { status, body } = await system.api("GET", pathOf(client, trial));
    expect(status, body).toBe(200);
    const { limits, gateways } = JSON.parse(body);
    const told = limits ?? gateways.find(({ id }: { id: string }) => id === client.gateway.id)?.limits;
    expect(told, body).toBeDefined();
    return told.map(({ name, limit, remaining }: ToldLimit) => ({ name, limit, remaining }));
  });
}

/** A gateway has its own counters of policies of scope node. */
const counterOf = ({ document, gateway }: Client, { key }: Counts) =>
  JSON.stringify([document.name, document["scope"] === "node" ? gateway.id : "", key]);

const send = ({ document, gateway, headers }: Client) => ask(`${gateway.url}/${document.name}`, { headers });

type Header = string | readonly string[] | undefined;

/** Lists what the headers say of the limits: `name` with the capacity. */
const capacities = (header: Header) =>
  [...String(header).matchAll(/"([^"]+)";q=(\d+)/g)].map(([, name, limit]) => ({ name, limit: Number(limit) }));

/** Returns the limit that `RateLimit` shows. */
function shownIn(header: Header): { readonly name: string | undefined; readonly remaining: number } {
  const [, name, remaining] = /^"([^"]+)";r=(\d+)/.exec(String(header)) ?? [];
  return { name, remaining: Number(remaining) };
}

const fitsInto = (limits: readonly ToldLimit[], cost: number) => limits.every(({ remaining }) => remaining >= cost);

/** Sends a request, and expects what the counters said before, and the counters to say what it says. @returns what they say afterwards */
async function expectAsTold(
  client: Client,
  trial: Counts,
  before: readonly ToldLimit[],
): Promise<readonly ToldLimit[]> {
  const { cost, mode } = trial;
  const fits = fitsInto(before, cost);
  const { status, headers } = await send(client);
  const after = await countersOf(client, trial);
  expect(after).toEqual(before.map((limit) => ({ ...limit, remaining: limit.remaining - (fits ? cost : 0) })));
  const { ratelimit, "ratelimit-policy": ofPolicy } = headers;
  if (mode === "shadow") {
    expect([status, ratelimit]).toEqual([200, undefined]);
    return after;
  }
  const { action } = client.document["onLimit"] as { action: string };
  expect(status).toBe(fits || action === "tag" ? 200 : 429);
  expect(capacities(ofPolicy)).toEqual(after.map(({ name, limit }) => ({ name, limit })));
  const { name, remaining } = shownIn(ratelimit);
  const shown = after.find((one) => one.name === name);
  expect(shown?.remaining).toBe(remaining);
  // The limit that is nearest to refusing, or one that refuses.
  if (fits) expect(shown?.remaining).toBe(Math.min(...after.map((one) => one.remaining)));
  else expect(shown?.remaining).toBeLessThan(cost);
  const { "x-ratelimit-limit": limit, "x-ratelimit-remaining": left } = headers;
  expect([Number(limit), Number(left)]).toEqual([shown?.limit, remaining]);
  return after;
}

/** The check API looks at the same counter, unless only the request could say which plan. */
async function expectPeekAsTold(client: Client, trial: Counts, told: readonly ToldLimit[]): Promise<void> {
  const asked = { ...queryOf(client, trial), cost: trial.cost, peek: true };
  const { planBy, key } = client.document as { planBy?: string; key?: string[] };
  if (planBy === "consumer" || key?.includes(String(planBy))) delete (asked as Record<string, unknown>)["plan"];
  const { results } = await check(client.gateway.privateUrl, { app: "default", token: caller }, [asked]);
  const [{ limit, remaining, allowed } = {}] = results;
  // Callers never see a policy in shadow mode.
  if (trial.mode === "shadow") {
    expect([allowed, limit]).toEqual([true, undefined]);
    return;
  }
  expect(told).toContainEqual(expect.objectContaining({ limit, remaining }));
  expect(allowed).toBe(told.every((one) => one.remaining >= trial.cost));
}

/** The forecast knows no consumers, and no plans but those that the key has: it plays the default plan. */
function forecastKnows({ document }: Client, { isOverridden, plan, consumer }: Counts): boolean {
  if (document["plans"] === undefined || isOverridden) return true;
  return consumer === undefined ? plan === document["defaultPlan"] : consumer === "stranger";
}

/** The forecast of a key's first request shows what the counters of an unused key show after it. */
function expectForecastAsTold({ document }: Client, { key, cost, mode }: Counts, unused: readonly ToldLimit[]): void {
  const { policy } = validatePolicy(document);
  if (policy === undefined) throw new Error("not valid");
  const nowMs = Date.now();
  const values = key.map((value) => value ?? "");
  const traffic: Traffic = {
    atUs: Float64Array.of(nowMs * 1000),
    keyOf: Uint32Array.of(0),
    keys: [{ values, address: "127.0.0.1" }],
    costs: Float64Array.of(typeof document["cost"] === "number" ? Number.NaN : cost),
  };
  const zones = zonesFor(policy, nowMs / 1000, nowMs / 1000 + 1);
  const options = { zones, durationUs: 0, fromUs: 0, binUs: 1, binCount: 0, withDecisions: true };
  const { decisions } = simulate(policy, traffic, options);
  if (decisions === undefined) throw new Error("the forecast has no decisions");
  const { headers } = responseTo(policy, values, decisions, 0, nowMs, "both") ?? { headers: [] };
  const byName = Object.fromEntries(headers.map(({ name, value }) => [name.toLowerCase(), value]));
  if (mode === "shadow") {
    expect(byName["ratelimit"]).toBeUndefined();
    return;
  }
  expect(capacities(byName["ratelimit-policy"])).toEqual(unused.map(({ name, limit }) => ({ name, limit })));
  const { name, remaining } = shownIn(byName["ratelimit"]);
  expect(unused).toContainEqual(expect.objectContaining({ name, remaining: remaining + cost }));
}

/** A gateway that answers too late may or may not have carried out the order. */
function isCarriedOut({ status, body }: Answer): boolean {
  expect(status, body).toBe(200);
  return JSON.parse(body).gateways.every(({ state }: { state: string }) => state === "done");
}

/** Expects the counters to say what a top-up or a reset means. @returns what they say afterwards; undefined: nobody knows whether it was carried out */
async function topUpOrReset(
  client: Client,
  trial: Counts,
  before: readonly ToldLimit[],
): Promise<readonly ToldLimit[] | undefined> {
  if (random.below(2) === 0) {
    const answer = await system.api("DELETE", pathOf(client, trial));
    if (!isCarriedOut(answer)) return undefined;
    const after = await countersOf(client, trial);
    expect(after).toEqual(before.map((one) => ({ ...one, remaining: one.limit })));
    return after;
  }
  const { name } = random.of(before);
  const units = 1 + random.below(4);
  const body = { ...queryOf(client, trial), units, limit: name };
  const answer = await system.api("POST", "/apps/default/counters?literal=true", body);
  if (!isCarriedOut(answer)) return undefined;
  const after = await countersOf(client, trial);
  for (const [i, one] of before.entries()) {
    const remaining = one.name === name ? Math.min(one.limit, one.remaining + units) : one.remaining;
    // Under another plan, more may have been used than this one holds.
    const mayOweMore = one.remaining === 0 && (plansUsed.get(counterOf(client, trial))?.size ?? 0) > 1;
    const isLess = mayOweMore && (after[i] as ToldLimit).remaining < remaining;
    expect(after[i]).toEqual({ ...one, remaining: isLess ? after[i]?.remaining : remaining });
  }
  return after;
}

const seen = { counted: 0, refused: 0, toppedUp: 0, forecast: 0, consumers: 0, passedBy: 0 };
/** By counter: the plans under which it was used. */
const plansUsed = new Map<string, Set<string | undefined>>();
/** By policy: how many requests of each key were refused. */
const refusals = new Map<string, Map<string, number>>();

async function play(client: Client): Promise<void> {
  const trial = tried(client);
  if (trial.outcome !== "counts") {
    const { status, headers } = await send(client);
    expect([trial.outcome, status, headers["ratelimit"]]).toEqual(["passed-by", 200, undefined]);
    seen.passedBy += 1;
    return;
  }
  const counter = counterOf(client, trial);
  plansUsed.set(counter, (plansUsed.get(counter) ?? new Set()).add(trial.plan));
  let told = await countersOf(client, trial);
  if (told.every(({ limit, remaining }) => limit === remaining) && forecastKnows(client, trial)) {
    expectForecastAsTold(client, trial, told);
    seen.forecast += 1;
  }
  const refusedOf = refusals.get(client.document.name) ?? new Map<string, number>();
  refusals.set(client.document.name, refusedOf);
  const key = JSON.stringify(trial.key);
  for (let i = 2 + random.below(8); i > 0; i--) {
    if (!fitsInto(told, trial.cost)) {
      refusedOf.set(key, (refusedOf.get(key) ?? 0) + 1);
      seen.refused += 1;
    }
    told = await expectAsTold(client, trial, told);
    seen.counted += 1;
    if (random.below(3) === 0) {
      const after = await topUpOrReset(client, trial, told);
      if (after === undefined) return;
      told = after;
      seen.toppedUp += 1;
    }
    if (random.below(3) === 0) await expectPeekAsTold(client, trial, told);
  }
  if (trial.consumer === "ann" || trial.consumer === "free-2") seen.consumers += 1;
}

it(`is the same wherever it is told (SLUICE_TOLD_SEED=${seed})`, async () => {
  for (const document of documents) {
    for (let i = 0; i < 4; i++) {
      const headers: Record<string, string> = {};
      if (i === 0) headers["x-user"] = "ann";
      else if (random.below(10) > 0) headers["x-user"] = random.of(users);
      if (random.below(4) > 0) headers["x-plan"] = random.of(plans);
      if (typeof document["cost"] === "object" && random.below(2) === 0)
        headers["x-cost"] = `${1 + random.below(mostCost)}`;
      const client = { document, gateway: random.of(system.gateways), headers };
      await play(client).catch((error: Error) => {
        error.message = `${JSON.stringify({ document, gateway: client.gateway.id, headers })}: ${error.message}`;
        throw error;
      });
    }
  }
  // Each comparison was made.
  if (policyCount >= 40) for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});

it("is told of every key that was refused", async () => {
  expect(refusals.size).toBeGreaterThan(0);
  for (const [policy, refusedOf] of refusals) {
    await untilPasses(async () => {
      const { body } = await system.api("GET", `/apps/default/top?policy=${policy}&window=hour&limit=100`);
      const told = JSON.parse(body).refused.map(({ key, atLeast, atMost }: Record<string, unknown>) => [
        JSON.stringify(key),
        [atLeast, atMost],
      ]);
      expect(Object.fromEntries(told), policy).toEqual(
        Object.fromEntries([...refusedOf].map(([key, count]) => [key, [count, count]])),
      );
    });
  }
});
