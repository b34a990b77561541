// Plays the worked cases with the whole system: control plane, two gateways of two workers, Redis. The clock of nginx and
// Redis stands where the test sets it, so that the numbers are exact. ../limiter/worked-cases.test.ts plays them at the
// limiter.

import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import {
  booksPerMinute,
  burstAcrossABorder,
  fullHour,
  mostWithin,
  type Offer,
  perSecondAndPer30Seconds,
  tenPerMinute,
  type WorkedCase,
  wrongCosts,
} from "../fixtures/documents/worked-cases.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";

const scopes = ["node", "cluster"] as const;
type Scope = (typeof scopes)[number];

const played = [...booksPerMinute, ...burstAcrossABorder, tenPerMinute, ...perSecondAndPer30Seconds];
/** Each case has a host of its own, and so a policy of its own. */
const policyOf = (workedCase: WorkedCase, scope: Scope) => `${scope}-${played.indexOf(workedCase)}`;

const clock = new SetClock(fullHour);
let system: System;
beforeAll(async () => {
  // A busy machine may be slow with 980 requests at once, and Redis must decide each of them.
  const env = { SLUICE_REDIS_DEADLINE_MS: "10000" };
  system = await System.start({ gateways: 2, workers: 2, redis: true, clock, env });
  const all = scopes.flatMap((scope) => played.map((workedCase) => ({ scope, workedCase })));
  await Promise.all(
    all.map(({ scope, workedCase }) => {
      const name = policyOf(workedCase, scope);
      const match = { hosts: [`${name}.test`], paths: ["/api/books"] };
      return system.put({ name, scope, match, limits: workedCase.limits });
    }),
  );
});
afterAll(async () => {
  await system?.stop();
  clock.remove();
});

/** @returns one gateway for scope node, which counts alone, and both for scope cluster, which count together */
const urls = (scope: Scope, path: string) =>
  (scope === "node" ? system.gateways.slice(0, 1) : system.gateways).map(({ url }) => url + path);

// This test is first, while the clock stands: a jump of the clock may move a push socket from one worker to another.
describe.each(scopes)("case 7 in scope %s: several units at once", (scope) => {
  const limit = { algorithm: "token-bucket", quota: 7, window: "1m" };
  const path = `/units-${scope}`;
  const policy = { name: `units-${scope}`, scope, match: { paths: [path] }, limits: [limit] };
  const asked = async () => {
    const { status, headers } = await ask(urls(scope, path)[0] as string);
    return { status, remaining: headers["x-ratelimit-remaining"], retryAfter: headers["retry-after"] };
  };

  it("three and then four are all that a bucket of 7 holds", async () => {
    await system.put({ ...policy, cost: 3 });
    expect(await asked()).toEqual({ status: 200, remaining: "4", retryAfter: undefined });
    await system.put({ ...policy, cost: 5 });
    expect(await asked()).toEqual({ status: 429, remaining: "4", retryAfter: "9" });
    await system.put({ ...policy, cost: 4 });
    expect(await asked()).toEqual({ status: 200, remaining: "0", retryAfter: undefined });
    await system.put({ ...policy, cost: 1 });
    expect(await asked()).toEqual({ status: 429, remaining: "0", retryAfter: "9" });
  });
});

describe("case 7: an invalid cost", () => {
  const path = "/apps/default/policies/wrong-cost";
  const put = (cost: string) =>
    ask(`${system.controlUrl}/api/v1${path}`, {
      method: "PUT",
      headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/yaml" },
      body: `{ cost: ${cost}, limits: [{ algorithm: token-bucket, quota: 7, window: 1m }] }`,
    });

  it(".nan is refused with its line, and nothing is stored", async () => {
    const { status, body } = await put(".nan");
    expect([status, JSON.parse(body)]).toMatchObject([400, { code: "malformed-body" }]);
    expect(JSON.parse(body).detail).toContain("line 1: .nan is a number that JSON does not have");
    expect((await system.api("GET", path)).status).toBe(404);
  });

  it.each(wrongCosts.filter(({ written }) => written !== ".nan"))(
    "$written is refused with its place, and nothing is stored",
    async ({ written, expected, got }) => {
      const { status, headers, body } = await put(written);
      expect([status, headers["content-type"]]).toEqual([400, "application/problem+json; charset=utf-8"]);
      expect(JSON.parse(body)).toMatchObject({ code: "invalid-policy", errors: [{ path: "cost", expected, got }] });
      expect((await system.api("GET", path)).status).toBe(404);
    },
  );

  it("in JSON is refused too: NaN is not JSON, and a string is no number", async () => {
    const json = (cost: string) =>
      system.api("PUT", path, `{"cost":${cost},"limits":[{"algorithm":"token-bucket","quota":7,"window":"1m"}]}`);
    expect((await json("NaN")).status).toBe(400);
    expect(JSON.parse((await json('"3"')).body).errors).toMatchObject([{ path: "cost", got: '"3"' }]);
    expect((await system.api("GET", path)).status).toBe(404);
  });
});

describe("case 13: one address banned", () => {
  it("is refused on every route of every gateway, also where no policy matches, and nobody else is", async () => {
    await system.put({ name: "watched", mode: "shadow", match: { paths: ["/watched"] }, limits: [limitOf(1000)] });
    await system.put({ name: "enforced", match: { paths: ["/enforced"] }, limits: [limitOf(1000)] });
    const statuses = async (from: string) => {
      const asked = system.gateways.flatMap(({ url }) =>
        ["/", "/no/policy/here", "/watched", "/enforced"].map((path) => ask(url + path, { from })),
      );
      return [...new Set((await Promise.all(asked)).map(({ status }) => status))];
    };
    const ban = await system.api("POST", "/apps/default/bans?wait=30s", { cidr: "127.0.0.13", for: "1h" });
    expect([ban.status, JSON.parse(ban.body).applied]).toMatchObject([201, { gateways: 2, acked: 2 }]);
    expect(await statuses("127.0.0.13")).toEqual([403]);
    expect(await statuses("127.0.0.14")).toEqual([200]);
    await system.api("DELETE", `/apps/default/bans/${JSON.parse(ban.body).id}?wait=30s`);
    expect(await statuses("127.0.0.13")).toEqual([200]);
  });
});

const limitOf = (quota: number) => ({ algorithm: "fixed-window", quota, window: "366d" });

let hours = 0;

/** Plays the offers, starting at a full hour that no case has used. */
async function play(workedCase: WorkedCase, scope: Scope): Promise<Offer[]> {
  hours += 1;
  const headers = { host: `${policyOf(workedCase, scope)}.test` };
  const outcome: Offer[] = [];
  for (const offer of workedCase.offers) {
    clock.set(fullHour + hours * 3600 + offer.atSeconds);
    // The clock stands meanwhile, so all are at once also for a gateway that has a hundred at a time.
    const agent = new Agent({ keepAlive: true, maxSockets: 100 });
    const statuses = await askAtOnce(urls(scope, "/api/books"), offer.requests, { headers, agent });
    agent.destroy();
    const { 200: admitted = 0, 429: refused = 0 } = statuses;
    expect(admitted + refused, JSON.stringify(statuses)).toBe(offer.requests);
    outcome.push({ ...offer, admitted });
  }
  return outcome;
}

describe.each(scopes)("case 3 in scope %s: 120 a minute on /api/books, offered 20, 100, 100, 20", (scope) => {
  it.each(booksPerMinute)("$name", async (workedCase) => {
    const offers = await play(workedCase, scope);
    expect(offers).toEqual(workedCase.offers);
    const [fixed] = booksPerMinute;
    expect(mostWithin(60, offers)).toBe(workedCase === fixed ? 200 : 120);
  });
});

describe.each(scopes)("case 4 in scope %s: 1,000 per 3 s, offered 10, 10, 980, 900, 100, 0", (scope) => {
  it.each(burstAcrossABorder)("$name", async (workedCase) => {
    const offers = await play(workedCase, scope);
    expect(offers).toEqual(workedCase.offers);
    const [fixed] = burstAcrossABorder;
    expect(mostWithin(3, offers)).toBe(workedCase === fixed ? 1980 : 1000);
  });
});

describe.each(scopes)("case 5 in scope %s: 10 a minute with a precision of 5 s", (scope) => {
  it(tenPerMinute.name, async () => {
    const offers = await play(tenPerMinute, scope);
    expect(offers).toEqual(tenPerMinute.offers);
    expect(mostWithin(60, offers)).toBe(10);
  });
});

describe.each(scopes)("case 6 in scope %s: 10/s and 500 per 30 s on one policy", (scope) => {
  it.each(perSecondAndPer30Seconds)("$name", async (workedCase) => {
    expect(await play(workedCase, scope)).toEqual(workedCase.offers);
  });
});

it("Redis decided every request of scope cluster", async () => {
  for (const { privateUrl } of system.gateways) {
    const { body } = await ask(`${privateUrl}/sluice/metrics`);
    expect(body).toMatch(/policy="cluster-0",result="allowed"} [1-9]/);
    expect(body.match(/^sluice_degraded_decisions_total\{.*\} [1-9].*/gm)).toBeNull();
  }
});
