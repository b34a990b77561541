// The forecast of the console equals what a real gateway does, decision for decision: 1,000 random policies, with the same requests at
// the same times. SLUICE_FORECAST_SEED repeats a run, SLUICE_FORECAST_POLICIES says how many policies it has.

import { afterAll, beforeAll, expect, it } from "vitest";
import { type ClientResponse, responseTo } from "../../console/src/forecast/headers.ts";
import { outcomes, type Simulation, simulate } from "../../console/src/forecast/simulate.ts";
import type { Traffic } from "../../console/src/forecast/traffic.ts";
import type { Policy } from "../../limiter/src/document/policy.ts";
import { validatePolicy } from "../../limiter/src/document/validate.ts";
import type { Answer } from "../fixtures/clients/requests.ts";
import { type LoneGateway, zonesOfTests } from "../fixtures/servers/lone-gateway.ts";
import {
  debugSecret,
  gatewayAtGivenTimes,
  Pipeline,
  sendLasting,
  type TimedRequest,
} from "../forecast/gateway-at-given-times.ts";
import { randomWorld, type World } from "../forecast/random-worlds.ts";

const seed = Number(process.env["SLUICE_FORECAST_SEED"] ?? Date.now() % 1_000_000);
const policyCount = Number(process.env["SLUICE_FORECAST_POLICIES"] ?? 1000);
const worlds = Array.from({ length: policyCount }, (_, index) => randomWorld(seed, index));

let gateway: LoneGateway;

beforeAll(async () => {
  gateway = await gatewayAtGivenTimes(worlds.map(({ document }) => document));
});
afterAll(async () => {
  await gateway?.stop();
});

it(`decides as the gateway does (SLUICE_FORECAST_SEED=${seed})`, async () => {
  const pipeline = new Pipeline(gateway.url);
  const seen: Record<string, number> = {};
  for (const world of worlds) {
    const policy = policyOf(world);
    const forecast = forecastOf(policy, world);
    const requests = timedRequests(world);
    const answers =
      world.durationUs > 0 ? await sendLasting(gateway.url, requests, world.durationUs) : await pipeline.send(requests);
    const { decisions } = forecast;
    if (decisions === undefined) throw new Error("the forecast has no decisions");
    for (const [index, answer] of answers.entries()) {
      const { values } = world.requests[index] as World["requests"][number];
      const nowMs = ((world.requests[index] as World["requests"][number]).atUs as number) / 1_000;
      const response = responseTo(policy, values, decisions, index, nowMs, "both") as ClientResponse;
      const delayUs =
        outcomes[decisions.outcome[index] as number] === "delayed" ? (decisions.delayUs[index] as number) : 0;
      const where = `seed ${seed}, request ${index} of ${JSON.stringify(world)}`;
      const wouldRefuse = outcomes[decisions.outcome[index] as number] === "would-refuse";
      expect(answer.headers["x-sluice-debug"]?.includes("shadow-refused") ?? false, where).toBe(wouldRefuse);
      expect(told(answer, response.body !== undefined), where).toEqual(foretold(response, delayUs));
    }
    for (const [name, count] of Object.entries(forecast.totals)) seen[name] = (seen[name] ?? 0) + count;
  }
  pipeline.close();
  expect(gateway.log).not.toContain("passed without a decision");
  // Nothing that is compared is compared in vain.
  if (policyCount >= 1000) for (const outcome of outcomes) expect(seen[outcome], outcome).toBeGreaterThan(100);
});

function policyOf({ document }: World): Policy {
  const { policy, problems } = validatePolicy(document);
  if (policy === undefined) throw new Error(`${JSON.stringify(document)}: ${JSON.stringify(problems)}`);
  return policy;
}

function forecastOf(policy: Policy, { requests, durationUs, responseBytes }: World): Simulation {
  const places = new Map<string, number>();
  const keys: Traffic["keys"][number][] = [];
  const keyOf = requests.map(({ values }) => {
    const name = JSON.stringify(values);
    const place = places.get(name) ?? keys.length;
    if (place === keys.length) keys.push({ values, address: "127.0.0.1" });
    places.set(name, place);
    return place;
  });
  const traffic: Traffic = {
    atUs: Float64Array.from(requests, ({ atUs }) => atUs),
    keyOf: Uint32Array.from(keyOf),
    keys,
    costs: Float64Array.from(requests, ({ cost }) => cost ?? Number.NaN),
  };
  return simulate(policy, traffic, {
    zones: zonesOfTests,
    durationUs,
    responseBytes,
    fromUs: 0,
    binUs: 1,
    binCount: 0,
    withDecisions: true,
  });
}

function timedRequests({ document, requests, responseBytes }: World): TimedRequest[] {
  const key = document["key"] as string[];
  return requests.map(({ atUs, values, cost }) => {
    const headers: Record<string, string> = {};
    key.forEach((part, i) => {
      if (part.startsWith("header:") && values[i] !== "") headers[part.slice(7)] = values[i] as string;
    });
    if (document["mode"] === "shadow") headers["x-sluice-debug"] = debugSecret;
    if (cost !== undefined) headers["x-cost"] = `${cost}`;
    if (responseBytes > 0) headers["x-bytes"] = `${responseBytes}`;
    return { atUs, path: `/${document["name"]}`, headers };
  });
}

const compared = [
  "ratelimit-policy",
  "ratelimit",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "retry-after",
  "x-reason",
  "x-less",
];

/** When slots of other limits end depends on when the gateway's timers renew them. */
function comparedOf(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const found: Record<string, unknown> = Object.fromEntries(compared.map((name) => [name, headers[name]]));
  const slots = [...`${found["ratelimit-policy"]}`.matchAll(/"([\w-]+)";q=\d+;qu=/g)].map(([, name]) => name);
  for (const name of slots) {
    found["ratelimit"] = `${found["ratelimit"]}`.replace(new RegExp(`(, "${name}";r=\\d+);t=\\d+`), "$1");
  }
  return found;
}

function told({ status, headers, body }: Answer, hasBody: boolean): object {
  return {
    status,
    headers: comparedOf(headers),
    type: hasBody ? headers["content-type"] : undefined,
    body: hasBody ? body : undefined,
    sleptMs: status === 200 ? Number(headers["x-slept-ms"] ?? 0) : 0,
  };
}

function foretold({ status, headers, body }: ClientResponse, delayUs: number): object {
  const byName = Object.fromEntries(headers.map(({ name, value }) => [name.toLowerCase(), value]));
  return {
    status: status ?? 200,
    headers: comparedOf(byName),
    type: byName["content-type"],
    body,
    sleptMs: Math.ceil(delayUs / 1000),
  };
}
