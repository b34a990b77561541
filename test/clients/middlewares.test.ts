// The middlewares in the frameworks that they are for, with a real gateway behind them: who is served, who is refused and how, and
// what happens while the gateway is away.

import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SluiceClient, type SluiceEvent } from "../../clients/typescript/src/index.ts";
import { limit as limitOfExpress } from "../../clients/typescript/src/middlewares/express.ts";
import { limit as limitOfFastify } from "../../clients/typescript/src/middlewares/fastify.ts";
import { limit as limitOfHono } from "../../clients/typescript/src/middlewares/hono.ts";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { frameworks, type LimitedService } from "../fixtures/servers/limited-services.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import { expectQuotaExceeded } from "./quota-exceeded.ts";

const key = ["header:x-user"];
const year = { algorithm: "fixed-window", window: "366d" };
const policies = [
  { name: "three", key, limits: [{ ...year, quota: 3 }] },
  { name: "endless", scope: "cluster", key, limits: [{ algorithm: "fixed-window", window: "lifetime", quota: 1 }] },
  { name: "slow", key, limits: [{ algorithm: "token-bucket", quota: 1, window: "8s", burst: 1 }] },
  { name: "brief", key, limits: [{ algorithm: "token-bucket", quota: 1, window: "100s", burst: 1 }] },
  { name: "fast", key, limits: [{ algorithm: "token-bucket", quota: 10, window: "1s", burst: 1 }] },
  { name: "shaped", key, limits: [{ algorithm: "leaky-bucket", quota: 10, window: "1s", burst: 10 }] },
  {
    name: "plans",
    key,
    planBy: "header:x-plan",
    defaultPlan: "free",
    plans: { free: [{ ...year, quota: 10 }], gold: [{ ...year, quota: 100 }] },
  },
];
const limits = {
  "/three": { policy: "three" },
  "/endless": { policy: "endless" },
  "/slow": { policy: "slow", maxWaitMs: 60_000 },
  "/brief": { policy: "brief" },
  "/fast": { policy: "fast", maxWaitMs: 20_000 },
  "/shaped": { policy: "shaped" },
  "/own": { policy: "three", refusal: "a teapot" },
  "/costly": { policy: "plans", readsCost: true },
  "/patient": { policy: "plans", readsCost: true, maxWaitMs: 20_000 },
  "/wrong": { policy: "none" },
};

let system: System;
let token: string;
beforeAll(async () => {
  system = await System.start({ redis: true });
  await system.untilConnected();
  for (const policy of policies) await system.put({ match: { paths: ["/elsewhere"] }, ...policy });
  token = JSON.parse(
    (await system.api("POST", "/tokens", { name: "service", app: "default", role: "caller" })).body,
  ).token;
  const banned = await system.api("POST", "/apps/default/bans?wait=30s", {
    policy: "three",
    keyPattern: ["bad-*"],
    for: "1h",
  });
  expect(banned.status, banned.body).toBe(201);
});
afterAll(() => system?.stop());

describe.each(Object.entries(frameworks))("in %s", (name, start) => {
  const events: SluiceEvent[] = [];
  let sluice: SluiceClient;
  let service: LimitedService;
  beforeAll(async () => {
    sluice = new SluiceClient({
      url: system.gateway.privateUrl,
      token,
      // However busy the machine is, the gateway decides.
      deadlineMs: 20_000,
      onFailure: "deny",
      onEvent: (event) => events.push(event),
    });
    service = await start(sluice, limits);
  });
  afterAll(async () => {
    await service?.stop();
    await sluice?.close();
  });

  const user = (who: string) => `${who} of ${name}`;
  const get = (path: string, who?: string, headers: Record<string, string> = {}): Promise<Answer> =>
    ask(service.url + path, { headers: { ...(who === undefined ? {} : { "x-user": user(who) }), ...headers } });

  it("serves a request within its limit, and refuses the next with a problem document", async () => {
    for (let i = 0; i < 3; i++) expect(await get("/three", "ann")).toMatchObject({ status: 200, body: "served" });
    // The gateway refuses the first of these, and the client's memory the second.
    for (const source of ["gateway", "memory"]) {
      const askedAtMs = Date.now();
      const { status, headers, body } = await get("/three", "ann");
      expect([status, events.at(-1)?.source]).toEqual([429, source]);
      expect(headers["content-type"]).toMatch(/^application\/problem\+json(; charset=utf-8)?$/);
      expectQuotaExceeded({ headers, body }, askedAtMs);
    }
    expect(await get("/three", "bob")).toMatchObject({ status: 200, body: "served" });
  });

  it("says a short wait in seconds", async () => {
    await get("/brief", "in a hurry");
    const { headers, body } = await get("/brief", "in a hurry");
    expect(JSON.parse(body).detail).toBe(`Try again in ${headers["retry-after"]} s.`);
  });

  it("has no Retry-After where waiting does not help", async () => {
    await get("/endless", "ann");
    const { status, headers, body } = await get("/endless", "ann");
    expect(status).toBe(429);
    expect(headers).not.toHaveProperty("retry-after");
    expect(JSON.parse(body).detail).toBe(
      "The limit has no units left for this request, and none come back by themselves.",
    );
    expect(JSON.parse((await get("/costly", "ann", { "x-cost": "11" })).body).detail).toBe(
      "The request costs more than its limit ever holds.",
    );
  });

  it("answers 403 to who is banned", async () => {
    const { status, headers, body } = await ask(`${service.url}/three`, { headers: { "x-user": `bad-${name}` } });
    expect(status).toBe(403);
    expect(headers).not.toHaveProperty("retry-after");
    expect(JSON.parse(body)).toEqual({
      type: "about:blank",
      title: "Banned",
      status: 403,
      detail: "Requests of this client are not served.",
      policy: "three",
    });
  });

  it("lets a request wait for its turn in line", async () => {
    const startedAtMs = performance.now();
    const all = await Promise.all([1, 2, 3].map(() => get("/fast", "ann")));
    expect(all.map(({ body }) => body)).toEqual(["served", "served", "served"]);
    // One at once, the others 100 ms after each other.
    expect(performance.now() - startedAtMs).toBeGreaterThan(190);
  });

  it("delays a request for as long as a leaky-bucket says", async () => {
    const startedAtMs = performance.now();
    const all = await Promise.all([1, 2, 3].map(() => get("/shaped", "ann")));
    expect(all.map(({ body }) => body)).toEqual(["served", "served", "served"]);
    expect(performance.now() - startedAtMs).toBeGreaterThan(190);
  });

  it("charges the cost of the request, by its plan", async () => {
    expect((await get("/costly", "bob", { "x-cost": "8" })).status).toBe(200);
    expect((await get("/costly", "bob", { "x-cost": "3" })).status).toBe(429);
    expect((await get("/costly", "bob", { "x-cost": "90", "x-plan": "gold" })).status).toBe(200);
    expect((await sluice.peek("plans", [user("bob")], { plan: "gold" })).remaining).toBe(2);
  });

  it("charges nothing for a request of no units, which is refused at once if nothing is left", async () => {
    const looks = async () => {
      const answers = ["/costly", "/patient"].map((path) => get(path, "guest", { "x-cost": "0" }));
      return (await Promise.all(answers)).map(({ status }) => status);
    };
    expect(await looks()).toEqual([200, 200]);
    expect((await get("/costly", "guest", { "x-cost": "10" })).status).toBe(200);
    expect(await looks()).toEqual([429, 429]);
  });

  it("asks nobody about a request without a key", async () => {
    const before = events.length;
    for (let i = 0; i < 5; i++) expect(await get("/three")).toMatchObject({ status: 200, body: "served" });
    expect(events.length).toBe(before);
  });

  it("answers a refusal as the service wants", async () => {
    for (let i = 0; i < 3; i++) expect((await get("/own", "teapot")).status).toBe(200);
    expect(await get("/own", "teapot")).toMatchObject({ status: 418, body: "a teapot" });
  });

  it("passes an error to the framework", async () => {
    expect(await get("/wrong", "ann")).toMatchObject({ status: 500, body: "policy-not-found" });
  });

  it("forgets a request whose client leaves while it waits", async () => {
    await get("/slow", "ann");
    const leaving = request(`${service.url}/slow`, { agent: false, headers: { "x-user": user("ann") } });
    leaving.on("error", () => {});
    leaving.end();
    // It is in line at once. Nothing shows that, so a busy machine has a second.
    await sleep(1_000);
    const before = events.length;
    leaving.destroy();
    await until("the wait has ended", () => events.length > before);
    expect(events.at(-1)).toMatchObject({ call: "acquire", outcome: "error" });
    // The gateway sees it leave at once. Nothing shows that, so a busy machine has a second.
    await sleep(1_000);
    // A unit comes every 8 s. Had the other stayed in the line, this one would wait for the second.
    const next = await sluice.acquire("slow", [user("ann")], { maxWaitMs: 10_000 });
    expect(next).toMatchObject({ allowed: true, source: "gateway" });
    expect(service.served.filter((path) => path === "/slow")).toHaveLength(1);
  });
});

it("refuses to start with a limit that would limit nothing", () => {
  const sluice = new SluiceClient({ url: system.gateway.privateUrl, token });
  for (const limit of [limitOfExpress, limitOfFastify, limitOfHono]) {
    const limitWith = (options: object) => () => limit(sluice, { policy: "three", key: () => [], ...options } as never);
    expect(limitWith({ policy: "" })).toThrow('limit: option policy: expected the name of a policy, got ""');
    expect(limitWith({ key: ["ann"] })).toThrow(
      "limit: option key: expected a function of the request, got a list of 1",
    );
    expect(limitWith({ maxWaitMs: 0 })).toThrow("maxWaitMs: expected a number from 1 to 60000, got 0");
    expect(limitWith({ wait: 5 })).toThrow("limit: option wait: expected no such option; known are policy, key");
  }
});

describe("while the gateway is away", () => {
  beforeAll(() => system.gateway.program.stop());

  it.each(Object.entries(frameworks))("%s serves, or answers 503, as the client's onFailure says", async (_, start) => {
    for (const onFailure of ["allow", "deny"] as const) {
      const sluice = new SluiceClient({ url: system.gateway.privateUrl, token, onFailure });
      const service = await start(sluice, limits);
      for (const path of ["/three", "/fast"]) {
        const { status, headers, body } = await ask(service.url + path, { headers: { "x-user": "ann" } });
        if (onFailure === "allow") expect([status, body]).toEqual([200, "served"]);
        else {
          expect([status, headers["retry-after"]]).toEqual([503, "1"]);
          expect(JSON.parse(body)).toMatchObject({ title: "Limit cannot be checked", status: 503 });
        }
      }
      await service.stop();
      await sluice.close();
    }
  });
});
