// The story of each template of the library, with a real control plane, gateway and service: what somebody wants who takes it by its name,
// and what the clients see. The story of sms-vendor counts what happens in a second: test/e2e/measured/library-sms-vendor.test.ts.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { library } from "../../control-plane/src/library/supplied.ts";
import { type Answer, ask, type RequestOptions } from "../fixtures/clients/requests.ts";
import { HeldService } from "../fixtures/servers/held-service.ts";
import { System } from "../fixtures/servers/system.ts";
import { until, untilPasses } from "../fixtures/until.ts";

let system: System;
let service: HeldService;
beforeAll(async () => {
  service = await HeldService.start();
  system = await System.start({ env: { SLUICE_UPSTREAM: service.url } });
});
afterAll(async () => {
  await system?.stop();
  service?.stop();
});
beforeEach(() => {
  service.reset();
  service.holds = false;
});

const send = (path: string, options: RequestOptions = {}): Promise<Answer> =>
  ask(`${system.gateway.url}${path}`, options);
const form = { "content-type": "application/x-www-form-urlencoded" };
const signIn = (path: string, account: string, from = "127.0.0.1") =>
  send(path, { method: "POST", body: `account=${account}&password=guess`, headers: form, from });
const retryAfter = ({ headers }: Answer) => Number(headers["retry-after"]);

const stories: Readonly<Record<string, () => void>> = {
  "login-protection": () => {
    it("refuses the sixth try for an account within a minute, from wherever, in plain words; another account still signs in", async () => {
      await system.put({ name: "login", template: "login-protection", match: { paths: ["/login"] } });
      for (let i = 1; i <= 5; i++) expect((await signIn("/login", "ann", `127.0.0.${i}`)).status).toBe(200);
      const refused = await signIn("/login", "ann", "127.0.0.6");
      expect([refused.status, refused.headers["content-type"]]).toEqual([429, "application/json"]);
      expect(JSON.parse(refused.body)).toEqual({
        error: "too_many_tries",
        message: expect.stringContaining("wait for the seconds that Retry-After says"),
      });
      expect(retryAfter(refused)).toBeGreaterThan(30);
      expect(retryAfter(refused)).toBeLessThanOrEqual(60);
      expect((await signIn("/login", "%61nn")).status).toBe(429);
      expect((await signIn("/login", "ben")).status).toBe(200);
      // The service saw none of those that were refused.
      expect(service.arrivedAtMs("/login").length).toBe(6);
    });

    it("neither counts the page itself nor lets the form pass in another form", async () => {
      for (let i = 0; i < 10; i++) expect((await send("/login")).status).toBe(200);
      const body = JSON.stringify({ account: "ann", password: "guess" });
      const headers = { "content-type": "application/json" };
      expect((await send("/login", { method: "POST", body, headers })).status).toBe(403);
    });
  },

  "login-protection-by-address": () => {
    it("refuses the 21st try of an address within a minute, whatever the account; another address still signs in", async () => {
      const match = { paths: ["/sign-in"] };
      await system.put({ name: "sign-in", template: "login-protection", match });
      await system.put({ name: "sign-in-by-address", template: "login-protection-by-address", match });
      for (let i = 1; i <= 20; i++) expect((await signIn("/sign-in", `account-${i}`, "127.0.0.8")).status).toBe(200);
      const refused = await signIn("/sign-in", "account-21", "127.0.0.8");
      expect([refused.status, JSON.parse(refused.body).error]).toEqual([429, "too_many_tries"]);
      expect(retryAfter(refused)).toBeLessThanOrEqual(60);
      expect((await signIn("/sign-in", "account-21", "127.0.0.9")).status).toBe(200);
    });
  },

  "polite-429": () => {
    it("tells a client over the limit in JSON what to do, and no cache to keep it", async () => {
      await system.put({
        name: "polite",
        match: { paths: ["/polite"] },
        limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }],
        onLimit: { template: "polite-429" },
      });
      expect((await send("/polite")).status).toBe(200);
      const refused = await send("/polite");
      expect(refused.status).toBe(429);
      expect(refused.headers).toMatchObject({ "content-type": "application/json", "cache-control": "no-store" });
      expect(JSON.parse(refused.body)).toEqual({
        error: "too_many_requests",
        message: "You have sent too many requests. Please wait for the seconds that Retry-After says, and try again.",
      });
      expect(retryAfter(refused)).toBeGreaterThan(0);
      expect(retryAfter(refused)).toBeLessThanOrEqual(3600);
    });
  },

  "wait-in-line": () => {
    it("lets a burst wait, and pass in order; who finds a hundred waiting is refused at once", async () => {
      await system.put({
        name: "line",
        match: { paths: ["/line"] },
        limits: [{ algorithm: "token-bucket", quota: 20, window: "1s", burst: 1 }],
        onLimit: { template: "wait-in-line" },
      });
      // One passes at once and a hundred wait. At twenty a second, some more find room before all have been sent.
      const count = 160;
      const sockets = await Promise.all(Array.from({ length: count }, () => connected()));
      const answers = sockets.map(async (socket, i) => {
        socket.write(`GET /line HTTP/1.1\r\nHost: x\r\nX-Key: ${i}\r\nConnection: close\r\n\r\n`);
        const [data] = (await once(socket, "data")) as [Buffer];
        socket.destroy();
        return { status: Number(data.toString("latin1").split(" ")[1]), passed: service.arrivals.length };
      });
      const all = await Promise.all(answers);
      const passed = all.filter(({ status }) => status === 200);
      const refused = all.filter(({ status }) => status === 429);
      expect(passed.length + refused.length).toBe(count);
      expect(passed.length).toBeGreaterThanOrEqual(101);
      expect(refused.length).toBeGreaterThan(0);
      // They were refused while the first hundred still waited.
      for (const each of refused) expect(each.passed).toBeLessThan(100);
      const order = service.arrivals.map(({ key }) => Number(key));
      expect(order).toEqual([...order].sort((a, b) => a - b));
    });
  },

  "cheap-answer": () => {
    it("answers over the limit with less, in place of an error, and the service gets no request", async () => {
      await system.put({
        name: "suggestions",
        match: { paths: ["/suggestions"] },
        limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }],
        onLimit: { template: "cheap-answer" },
      });
      expect((await send("/suggestions")).body).toBe("done");
      const cheap = await send("/suggestions");
      expect([cheap.status, cheap.headers["x-degraded"], JSON.parse(cheap.body)]).toEqual([200, "1", []]);
      expect(cheap.headers["content-type"]).toBe("application/json");
      expect(service.arrivedAtMs("/suggestions").length).toBe(1);
    });
  },

  "tiered-api": () => {
    it("gives each user what the plan has, and keeps what was used when the user moves to another", async () => {
      await system.put({ name: "tiers", template: "tiered-api", match: { paths: ["/tiers"] } });
      const as = (plan: string, user: string) => send("/tiers", { headers: { "x-plan": plan, "x-user-id": user } });
      for (let i = 0; i < 60; i++) expect((await as("free", "ann")).status).toBe(200);
      const refused = await as("free", "ann");
      expect([refused.status, refused.headers["x-ratelimit-limit"]]).toEqual([429, "60"]);
      expect(retryAfter(refused)).toBeLessThanOrEqual(66);
      expect((await as("free", "ben")).status).toBe(200);
      expect((await as("unknown", "eve")).headers["x-ratelimit-limit"]).toBe("60");
      const { status, headers } = await as("pro", "ann");
      expect([status, headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]]).toEqual([200, "600", "539"]);
      expect((await send("/tiers")).status).toBe(403);
    });
  },

  "download-quota": () => {
    it("refuses the next request of a client that was sent more than 10 MB in a minute, and no other client's", async () => {
      service.bodies.set("/download", Buffer.alloc(6_000_000, "x"));
      await system.put({ name: "downloads", template: "download-quota", match: { paths: ["/download"] } });
      const download = (from: string) => send("/download", { from });
      for (let i = 0; i < 2; i++) {
        const { status, body } = await download("127.0.0.10");
        expect([status, body.length]).toEqual([200, 6_000_000]);
      }
      // Responses are charged a moment after they were sent.
      await untilPasses(async () =>
        expect((await send("/download", { method: "HEAD", from: "127.0.0.10" })).status).toBe(429),
      );
      const refused = await download("127.0.0.10");
      expect(refused.status).toBe(429);
      expect(retryAfter(refused)).toBeGreaterThan(50);
      expect(retryAfter(refused)).toBeLessThanOrEqual(70);
      expect((await download("127.0.0.11")).status).toBe(200);
    });
  },

  "per-tenant-concurrency": () => {
    it("lets ten requests of a tenant be in progress; a slot is free when one ends, or its client goes away", async () => {
      await system.put({ name: "reports", template: "per-tenant-concurrency", match: { paths: ["/reports"] } });
      service.holds = true;
      const tenant = (name: string) => ({ headers: { "x-tenant": name } });
      const leaving = await connected();
      leaving.write("GET /reports HTTP/1.1\r\nHost: x\r\nX-Tenant: acme\r\n\r\n");
      const others = Array.from({ length: 9 }, () => send("/reports", tenant("acme")));
      await until("ten are in progress", () => service.running === 10);
      expect((await send("/reports", tenant("acme"))).status).toBe(429);
      const globex = send("/reports", tenant("globex"));
      await until("another tenant's is, too", () => service.running === 11);
      leaving.destroy();
      const { answer: next } = await admitted(() => send("/reports", tenant("acme")), 12);
      expect((await send("/reports", tenant("acme"))).status).toBe(429);
      service.answer();
      const answers = await Promise.all([...others, globex, next]);
      expect(answers.map(({ status }) => status)).toEqual(Array(11).fill(200));
      service.holds = false;
      expect((await send("/reports", tenant("acme"))).status).toBe(200);
    });
  },

  maintenance: () => {
    it("closes a service for everybody but an exempt network, until it is off", async () => {
      const template = { name: "closed", template: "maintenance", match: { paths: ["/shop", "/shop/*"] } };
      await system.put(template);
      expect((await send("/shop", { from: "127.0.0.1" })).status).toBe(503);
      const policy = { ...template, exempt: { cidrs: ["127.0.0.1"] } };
      await system.put(policy);
      const visitor = { from: "127.0.0.12" };
      for (const path of ["/shop", "/shop/books"]) {
        const closed = await send(path, visitor);
        expect([closed.status, retryAfter(closed)]).toEqual([503, 600]);
        expect(closed.headers["content-type"]).toBe("text/html; charset=utf-8");
        expect(closed.body).toContain("<h1>We are working on it</h1>");
        expect((await send(path, { from: "127.0.0.1" })).status).toBe(200);
      }
      expect((await send("/elsewhere", visitor)).status).toBe(200);
      await system.put({ ...policy, mode: "off" });
      expect((await send("/shop", visitor)).status).toBe(200);
    });
  },
};

describe.each([...library.values()].filter(({ name }) => name !== "sms-vendor"))("$name", ({ name }) => {
  const story = stories[name];
  if (story === undefined) throw new Error(`the template ${name} has no story`);
  story();
});

async function connected(): Promise<Socket> {
  const socket = connect(Number(new URL(system.gateway.url).port), "127.0.0.1");
  await once(socket, "connect");
  return socket;
}

/** Sends until the service has so many requests in progress: a slot is free a moment after its client went away. */
async function admitted(sendOne: () => Promise<Answer>, running: number): Promise<{ answer: Promise<Answer> }> {
  let answer: Promise<Answer> | undefined;
  await until("a slot is free", async () => {
    let isAnswered = false;
    answer = sendOne().finally(() => {
      isAnswered = true;
    });
    await until("it is in progress or refused", () => isAnswered || service.running === running);
    return !isAnswered;
  });
  return { answer: answer as unknown as Promise<Answer> };
}
