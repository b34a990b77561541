// Slots that callers hold by the check API, from one request to the next: on one gateway with two workers, and in a fleet of two gateways.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { rightsOf } from "../fixtures/documents/documented-rights.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { childrenOf } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const bank: Caller = { app: "bank", token: "a-token-of-the-bank" };
const scopes = ["node", "cluster"] as const;

const slots = (quota: number, ttl: string) => ({ name: "slots", algorithm: "concurrency", quota, ttl });
const inBothScopes = (name: string, limits: object[], more = {}) =>
  scopes.map((scope) => ({
    name: `${name}-${scope}`,
    scope,
    match: { paths: [`/${name}-${scope}`] },
    key: ["header:x-user"],
    limits,
    ...more,
  }));
const policies = [
  ...inBothScopes("two", [slots(2, "5m")]),
  ...inBothScopes("brief", [slots(1, "1s")]),
  ...inBothScopes("renewed", [slots(1, "3s")]),
  ...inBothScopes("both", [slots(2, "5m"), { name: "total", algorithm: "fixed-window", quota: 3, window: "366d" }]),
  ...inBothScopes("other", [slots(2, "5m")]),
  ...inBothScopes("mixed", [{ ...slots(5, "1s"), name: "short" }, slots(2, "5m")]),
  ...inBothScopes("watched", [slots(1, "5m")], { mode: "shadow" }),
  { name: "rate", key: ["header:x-user"], limits: [{ algorithm: "fixed-window", quota: 3, window: "1d" }] },
];

let redis: RedisServer;
const gateways: LoneGateway[] = [];
beforeAll(async () => {
  // With the rights that gateways have, and no others.
  const user = ["--user", "sluice", "on", ">s3cret", ...rightsOf("one Redis")];
  redis = new RedisServer(await freePort(), {}, user);
  await redis.start();
  for (let i = 0; i < 2; i++) {
    gateways.push(await startGateway());
  }
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.stop();
  await redis?.stop();
});

function startGateway(): Promise<LoneGateway> {
  return LoneGateway.start({
    workers: 2,
    policies,
    otherPolicies: { bank: [] },
    callers: [callerOf(shop), callerOf(bank)],
    env: { SLUICE_REDIS_URL: `redis://sluice:s3cret@127.0.0.1:${redis.port}`, SLUICE_REDIS_DEADLINE_MS: "2000" },
  });
}

async function send(path: string, body: unknown, { caller = shop, at = 0 } = {}) {
  const answer = await ask(`${gateways[at]?.privateUrl}/sluice/v1/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${caller.token}`, "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: answer.status, ...JSON.parse(answer.body) };
}

const left = async (policy: string, user: string) =>
  (await check(gateways[0]?.privateUrl ?? "", shop, [{ policy, key: [user], peek: true }])).results[0]?.["remaining"];

describe.each(scopes)("slots of scope %s", (scope) => {
  const policy = `two-${scope}`;

  it("are held until they are released, once", async () => {
    const first = await send("hold", { policy, key: ["ann"] });
    expect(first).toMatchObject({ status: 200, policy, allowed: true, limit: 2, remaining: 1, ttl: 300 });
    const second = await send("hold", { policy, key: ["ann"] });
    expect(second).toMatchObject({ allowed: true, remaining: 0 });
    expect(second.hold).not.toBe(first.hold);
    const third = await send("hold", { policy, key: ["ann"] });
    expect(third).toMatchObject({ status: 200, allowed: false, remaining: 0 });
    expect(third).not.toHaveProperty("hold");
    expect(await send("release", { hold: first.hold })).toEqual({ status: 200, released: true });
    // Whoever got no answer asks again, and frees nobody else's slot.
    for (let i = 0; i < 3; i++) {
      expect(await send("release", { hold: first.hold })).toEqual({ status: 200, released: false });
    }
    expect(await left(policy, "ann")).toBe(1);
    expect(await send("renew", { hold: first.hold })).toEqual({ status: 200, renewed: false });
    expect(await send("renew", { hold: second.hold })).toEqual({ status: 200, renewed: true, ttl: 300 });
    expect(await left(policy, "ann")).toBe(1);
    await send("release", { hold: second.hold });
    expect(await left(policy, "ann")).toBe(2);
  });

  it("may be several at once", async () => {
    const both = await send("hold", { policy, key: ["two"], slots: 2 });
    expect(both).toMatchObject({ allowed: true, remaining: 0 });
    expect(await send("renew", { hold: both.hold })).toMatchObject({ renewed: true });
    expect(await left(policy, "two")).toBe(0);
    await send("release", { hold: both.hold });
    expect(await left(policy, "two")).toBe(2);
    expect(await send("hold", { policy, key: ["two"], slots: 3 })).toMatchObject({ allowed: false, retryAfter: null });
  });

  it("come back after their ttl if nobody renews them, and last as long as somebody does", async () => {
    const renewed = { policy: `renewed-${scope}`, key: ["ann"] };
    let hold = "";
    await until("a hold is renewed in time for longer than it would last", async () => {
      // A busy machine that stops for seconds loses the hold by it, and begins again with another key.
      renewed.key = [`${renewed.key}-again`];
      const held = await send("hold", renewed);
      expect(held.ttl).toBe(3);
      hold = held.hold;
      const heldAtMs = performance.now();
      for (let renewedAtMs = heldAtMs; renewedAtMs - heldAtMs < 4_500; ) {
        await sleep(300);
        const [renewal, other] = [await send("renew", { hold }), await send("hold", renewed)];
        const nowMs = performance.now();
        if (nowMs - renewedAtMs > 2_900) return false;
        renewedAtMs = nowMs;
        expect([renewal.renewed, other.allowed]).toEqual([true, false]);
      }
      return true;
    });
    await until("the slot is back", async () => (await send("hold", renewed)).allowed === true);
    expect(await send("renew", { hold })).toEqual({ status: 200, renewed: false });
    expect(await send("release", { hold })).toEqual({ status: 200, released: false });
    expect(await send("hold", renewed)).toMatchObject({ allowed: false });
  });

  it("are released without what else was charged", async () => {
    const both = { policy: `both-${scope}`, key: ["ann"] };
    for (let i = 0; i < 3; i++) {
      const { hold } = await send("hold", both);
      expect(await send("release", { hold })).toMatchObject({ released: true });
    }
    expect(await send("hold", both)).toMatchObject({ allowed: false, limit: 3, remaining: 0 });
  });

  it("of limits that live longer than others are still freed", async () => {
    const mixed = { policy: `mixed-${scope}`, key: ["ann"] };
    const [first, second] = [await send("hold", mixed), await send("hold", mixed)];
    expect(first).toMatchObject({ allowed: true, ttl: 1 });
    // The shorter limit has freed it by then, and the longer one keeps it for minutes.
    await sleep(1_500);
    expect(await send("renew", { hold: first.hold })).toMatchObject({ renewed: true });
    for (const { hold } of [first, second]) expect(await send("release", { hold })).toMatchObject({ released: true });
    expect(await left(`mixed-${scope}`, "ann")).toBe(2);
  });

  it("of another key or policy are not freed by what somebody makes of a hold", async () => {
    await send("hold", { policy, key: ["victim"] });
    const own = await send("hold", { policy: `other-${scope}`, key: ["own"] });
    const near = await send("hold", { policy, key: ["victim}::hold:x"] });
    const changed = (hold: string, terms: Record<number, unknown>) =>
      Buffer.from(JSON.stringify(Object.assign(JSON.parse(Buffer.from(hold, "base64url").toString()), terms))).toString(
        "base64url",
      );
    const [name] = JSON.parse(Buffer.from(near.hold, "base64url").toString());
    for (const hold of [
      changed(own.hold, { 1: `default/${policy}`, 6: "victim" }),
      changed(near.hold, { 0: `x}::hold:${name}`, 6: "victim" }),
      changed(near.hold, { 0: "x}:slots:concurrency:300000000", 6: "victim" }),
    ]) {
      for (const path of ["renew", "release"]) {
        expect(await send(path, { hold })).toEqual({ status: 200, [path === "renew" ? "renewed" : "released"]: false });
      }
    }
    expect([await left(policy, "victim"), await left(policy, "victim}::hold:x")]).toEqual([1, 1]);
    expect(await send("release", { hold: own.hold })).toMatchObject({ released: true });
    expect(await send("release", { hold: near.hold })).toMatchObject({ released: true });
  });

  it("are never more than the quota, whoever takes, renews and releases them at once", async () => {
    const user = { policy, key: ["crowd"] };
    let held = 0;
    let most = 0;
    let given = 0;
    const life = async () => {
      for (let i = 0; i < 12; i++) {
        const answer = await send("hold", user);
        if (!answer.allowed) continue;
        held += 1;
        given += 1;
        most = Math.max(most, held);
        if (i % 2 === 0) expect(await send("renew", { hold: answer.hold })).toMatchObject({ renewed: true });
        held -= 1;
        const released = await Promise.all([1, 2].map(() => send("release", { hold: answer.hold })));
        expect(released.map((one) => one.released).sort()).toEqual([false, true]);
      }
    };
    await Promise.all(Array.from({ length: 10 }, life));
    expect(most).toBeLessThanOrEqual(2);
    expect(given).toBeGreaterThan(5);
    expect(await left(policy, "crowd")).toBe(2);
  });

  it("are held for the ttl that their caller asks for, and for so long again after each renewal", async () => {
    const short = { policy, key: ["short"], slots: 2, ttl: "2s" };
    let hold = "";
    await until("a hold is renewed in time for longer than it would last", async () => {
      // A busy machine that stops for a second loses the hold by it, and begins again with another key.
      short.key = [`${short.key}-again`];
      const held = await send("hold", short);
      expect(held).toMatchObject({ allowed: true, remaining: 0, ttl: 2 });
      hold = held.hold;
      const heldAtMs = performance.now();
      for (let renewedAtMs = heldAtMs; renewedAtMs - heldAtMs < 5_000; ) {
        await sleep(300);
        const [renewal, free] = [await send("renew", { hold }), await left(policy, `${short.key}`)];
        const nowMs = performance.now();
        if (nowMs - renewedAtMs > 1_900) return false;
        renewedAtMs = nowMs;
        expect([renewal, free]).toEqual([{ status: 200, renewed: true, ttl: 2 }, 0]);
      }
      return true;
    });
    // The limit itself would keep them for five minutes.
    await until("the slots are back", async () => (await left(policy, `${short.key}`)) === 2);
    expect(await send("renew", { hold })).toEqual({ status: 200, renewed: false });
    expect(await send("release", { hold })).toEqual({ status: 200, released: false });
    expect(await left(policy, `${short.key}`)).toBe(2);
  });

  it("that were asked for a short time are free at once when they are released", async () => {
    const short = { policy, key: ["short-released"], ttl: "1s" };
    const { hold } = await send("hold", short);
    expect(await send("release", { hold })).toEqual({ status: 200, released: true });
    const next = await send("hold", { ...short, ttl: "5m", slots: 2 });
    expect(next).toMatchObject({ allowed: true, ttl: 300 });
    // The first hold's end frees nobody else's slots.
    await sleep(1_500);
    expect(await left(policy, "short-released")).toBe(0);
    expect(await send("release", { hold: next.hold })).toMatchObject({ released: true });
  });

  it("of a policy in shadow mode are given without being counted", async () => {
    const watched = { policy: `watched-${scope}`, key: ["ann"] };
    for (let i = 0; i < 3; i++) {
      const answer = await send("hold", watched);
      expect(answer).toMatchObject({ allowed: true, reason: "shadow", ttl: 300 });
      expect(await send("renew", { hold: answer.hold })).toEqual({ status: 200, renewed: true, ttl: 300 });
      expect(await send("release", { hold: answer.hold })).toEqual({ status: 200, released: true });
    }
  });

  it("are waited for in line", async () => {
    // A slot of this policy lasts for minutes, so only its release frees it.
    const user = { policy, key: ["line"], slots: 2 };
    const { hold } = await send("hold", user);
    const waiting = send("hold", { ...user, maxWait: "20s" });
    // It waits by now. If the machine is too busy for that, it comes when the slots are free.
    await sleep(200);
    await send("release", { hold });
    const answer = await waiting;
    expect(answer).toMatchObject({ allowed: true });
    await send("release", { hold: answer.hold });
  });
});

describe("slots of callers and gateways that are killed", () => {
  it("stay held when a worker is killed, and are renewed by the next one", async () => {
    const [gateway] = gateways as [LoneGateway];
    const holds = await Promise.all(
      scopes.map(async (scope) => (await send("hold", { policy: `two-${scope}`, key: ["worker"] })).hold),
    );
    for (const pid of childrenOf(gateway.pid)) process.kill(pid, "SIGKILL");
    await until("nginx has workers again", async () => {
      const answers = await Promise.all(holds.map((hold) => send("renew", { hold }).catch(() => ({ renewed: false }))));
      return answers.every(({ renewed }) => renewed);
    });
    for (const scope of scopes) expect(await left(`two-${scope}`, "worker")).toBe(1);
    for (const hold of holds) expect(await send("release", { hold })).toMatchObject({ released: true });
  });

  it("are free after the ttl that their caller asked for, though the worker that gave them was killed", async () => {
    const [gateway] = gateways as [LoneGateway];
    await Promise.all(
      scopes.map((scope) => send("hold", { policy: `two-${scope}`, key: ["short-killed"], slots: 2, ttl: "1s" })),
    );
    for (const pid of childrenOf(gateway.pid)) process.kill(pid, "SIGKILL");
    // The limit itself would keep them for five minutes.
    await until("the slots are free", async () => {
      const free = await Promise.all(scopes.map((scope) => left(`two-${scope}`, "short-killed").catch(() => 0)));
      return free.every((slots) => slots === 2);
    });
  });

  it("outlive a gateway of a fleet that is killed, and are free after their ttl if their caller is too", async () => {
    const third = await startGateway();
    gateways.push(third);
    const brief = { policy: "brief-cluster", key: ["killed"] };
    const kept = await send("hold", { policy: "two-cluster", key: ["killed"] }, { at: 2 });
    const heldAtMs = performance.now();
    await send("hold", brief, { at: 2 });
    for (const pid of [third.pid, ...childrenOf(third.pid)]) process.kill(pid, "SIGKILL");
    const soon = await send("hold", brief);
    if (performance.now() - heldAtMs < 1_000) {
      expect(soon).toMatchObject({ allowed: false });
      await until("the slot is free", async () => (await send("hold", brief)).allowed === true);
    }
    expect(await send("renew", { hold: kept.hold })).toMatchObject({ renewed: true });
    expect(await send("release", { hold: kept.hold })).toMatchObject({ released: true });
  });
});

describe("a hold", () => {
  it("of a fleet is renewed and released at any gateway, and that of a node only there", async () => {
    const inRedis = await send("hold", { policy: "two-cluster", key: ["fleet"] });
    expect(await send("renew", { hold: inRedis.hold }, { at: 1 })).toMatchObject({ renewed: true });
    expect(await send("release", { hold: inRedis.hold }, { at: 1 })).toMatchObject({ released: true });
    const here = await send("hold", { policy: "two-node", key: ["fleet"] });
    expect(await send("renew", { hold: here.hold }, { at: 1 })).toEqual({ status: 200, renewed: false });
    expect(await send("release", { hold: here.hold })).toMatchObject({ released: true });
  });

  it("that somebody has changed, or of another app, is none", async () => {
    const { hold } = await send("hold", { policy: "two-cluster", key: ["own"] });
    const none = { status: 200, released: false };
    expect(await send("release", { hold }, { caller: bank })).toEqual(none);
    const terms = JSON.parse(Buffer.from(hold, "base64url").toString());
    const changed = (place: number, value: unknown) =>
      Buffer.from(JSON.stringify(terms.with(place, value))).toString("base64url");
    for (const text of [
      changed(0, "guessed"),
      changed(1, "default/both-cluster"),
      changed(3, 2),
      changed(5, 9e5),
      changed(6, "else"),
    ]) {
      expect(await send("release", { hold: text }), text).toEqual(none);
      expect(await send("renew", { hold: text }), text).toEqual({ status: 200, renewed: false });
    }
    for (const text of [
      "x",
      hold.slice(1),
      `${hold}A`.slice(0, 40),
      changed(4, "?"),
      changed(3, -1),
      changed(5, "1s"),
      "%%%",
    ]) {
      expect(await send("release", { hold: text }), text).toEqual(none);
      expect(await send("renew", { hold: text }), text).toEqual({ status: 200, renewed: false });
    }
    expect(await left("two-cluster", "own")).toBeGreaterThanOrEqual(1);
  });

  it("is asked of policies with slots, by bodies that make sense", async () => {
    expect(await send("hold", { policy: "rate", key: ["a"] })).toMatchObject({
      status: 400,
      code: "policy-not-askable",
    });
    expect(await send("check", { checks: [{ policy: "two-node", key: ["a"] }] })).toMatchObject({
      status: 400,
      code: "policy-not-askable",
    });
    expect(await send("hold", { policy: "two-node" })).toMatchObject({
      errors: [{ path: "key", expected: "a list of 1: a value for each part of the policy's key" }],
    });
    expect(await send("hold", { policy: "two-node", key: ["a"], peek: true, maxWait: "2m" })).toMatchObject({
      code: "invalid-request",
      errors: [
        { path: "peek", expected: "no such field; known here: policy, key, slots, ttl, plan, maxWait" },
        { path: "peek" },
        { path: "maxWait", expected: 'a time like "500ms", of 1ms to 60s', got: '"2m"' },
      ].filter(({ expected }) => expected !== undefined),
    });
    // It is kept while the check waits: thousands of them would take hundreds of MB.
    const long = { policy: "two-node", key: ["a".repeat(8_000)], maxWait: "1s" };
    expect(await send("hold", long)).toMatchObject({ status: 200, allowed: true });
    const bodyOf = (bytes: number) => JSON.stringify(long).padEnd(bytes);
    expect(await send("hold", bodyOf(8_192))).toMatchObject({ status: 200, allowed: true });
    const expected = "a body of at most 8192 bytes: it is kept while the check waits";
    expect(await send("hold", bodyOf(8_193))).toMatchObject({
      code: "invalid-request",
      errors: [{ path: "maxWait", expected, got: "8193 bytes" }],
    });
    expect(await send("check", JSON.stringify({ checks: [long] }).padEnd(8_193))).toMatchObject({
      errors: [{ path: "checks[0].maxWait", expected }],
    });
    // nginx reads chunks into a buffer of 64 KB, whatever is in them, and keeps it.
    for (const [path, field, body] of [
      ["hold", "maxWait", { policy: "two-node", key: ["chunked"], maxWait: "1s" }],
      ["check", "checks[0].maxWait", { checks: [{ policy: "rate", key: ["chunked"], maxWait: "1s" }] }],
    ] as const) {
      const answer = await ask(`${gateways[0]?.privateUrl}/sluice/v1/${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${shop.token}`,
          "content-type": "application/json",
          "transfer-encoding": "chunked",
        },
        body: JSON.stringify(body),
      });
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body)).toMatchObject({
        code: "invalid-request",
        errors: [{ path: field, expected: expect.stringContaining("Content-Length"), got: "none" }],
      });
    }
    const hold = { policy: "two-node", key: ["a"] };
    for (const slots of [0, -1, 1.5, "1", 2_147_483_649]) {
      expect(await send("hold", { ...hold, slots })).toMatchObject({
        code: "invalid-request",
        errors: [{ path: "slots", expected: "an integer from 1 to 2147483648" }],
      });
    }
    expect(await send("hold", { ...hold, cost: 1 })).toMatchObject({ errors: [{ path: "cost" }] });
    for (const ttl of [10, "0s", "ten", ""]) {
      expect(await send("hold", { ...hold, ttl })).toMatchObject({
        errors: [{ path: "ttl", expected: 'a time like "10s"' }],
      });
    }
    for (const [ttl, got] of [
      ["999ms", "999ms"],
      ["301s", "301s"],
      ["1d", "1d"],
    ]) {
      expect(await send("hold", { ...hold, ttl })).toMatchObject({
        code: "invalid-request",
        errors: [{ path: "ttl", expected: "a time of 1s to 5m, for which slots of this policy live", got }],
      });
    }
    expect(await left("two-node", "a")).toBe(2);
    expect(await send("release", "[1]")).toMatchObject({ errors: [{ path: "", expected: 'an object with "hold"' }] });
    expect(await send("renew", { hold: 7 })).toMatchObject({
      errors: [{ path: "hold", expected: "what /sluice/v1/hold answered", got: "7" }],
    });
    expect(await send("release", '{"hold":"a","hold":"b"}')).toMatchObject({ code: "malformed-body" });
  });

  it("is not known while Redis is away; slots that a gateway gives meanwhile are its own", async () => {
    const before = await send("hold", { policy: "two-cluster", key: ["away"] });
    await redis.stop();
    expect(await send("renew", { hold: before.hold })).toMatchObject({ status: 503, code: "undecided" });
    expect(await send("release", { hold: before.hold })).toMatchObject({ status: 503, code: "undecided" });
    const own = await send("hold", { policy: "two-cluster", key: ["alone"] });
    expect(own).toMatchObject({ status: 200, allowed: true });
    expect(await send("renew", { hold: own.hold })).toMatchObject({ renewed: true });
    expect(await send("release", { hold: own.hold })).toMatchObject({ released: true });
    expect(await send("release", { hold: own.hold })).toMatchObject({ released: false });
  });
});
