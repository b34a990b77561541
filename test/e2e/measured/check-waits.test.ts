// Checks that wait in line for their units: in order, whichever worker they come to, and nothing is charged for those who leave.

import { Agent, request } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { auth, type Caller, callerOf, check, post } from "../../fixtures/clients/check-api-client.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";

const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const places = [
  { place: "node", where: { scope: "node" } },
  { place: "exact", where: { scope: "cluster" } },
  { place: "leased", where: { scope: "cluster", consistency: "leased" } },
] as const;
const perSecond = 100;
const document = (name: string, more: object) => ({
  name,
  match: { paths: ["/elsewhere"] },
  key: ["header:x-app"],
  limits: [{ algorithm: "token-bucket", quota: perSecond, window: "1s", burst: 2 }],
  ...more,
});

let redis: RedisServer;
let gateway: LoneGateway;
// A connection each: nginx closes idle ones when it reloads.
const agent = new Agent({ keepAlive: false, maxSockets: 2_000 });
beforeAll(async () => {
  redis = new RedisServer(await freePort());
  await redis.start();
  gateway = await LoneGateway.start({
    workers: 2,
    policies: [
      document("rate-node", {}),
      ...places.map(({ place, where }) =>
        document(`slow-${place}`, {
          ...where,
          limits: [{ algorithm: "token-bucket", quota: 20, window: "1s", burst: 2 }],
        }),
      ),
      ...places.map(({ place, where }) =>
        document(`many-${place}`, { ...where, limits: [{ algorithm: "fixed-window", quota: 1_000, window: "366d" }] }),
      ),
      document("total", { limits: [{ algorithm: "fixed-window", quota: 5, window: "2s" }] }),
      document("year", { limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }] }),
      document("turns", { limits: [{ algorithm: "leaky-bucket", quota: 10, window: "1s", burst: 5 }] }),
    ],
    callers: [callerOf(shop)],
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "2000" },
  });
});
afterAll(async () => {
  agent.destroy();
  await gateway?.stop();
  await redis?.stop();
});

interface Told {
  readonly index: number;
  readonly allowed: boolean;
  readonly atMs: number;
}

/** Asks on a connection of its own. @param leaveMs the caller closes it after this time; undefined: it stays */
function wait(
  index: number,
  policy: string,
  key: string,
  maxWait: string,
  leaveMs?: number,
): Promise<Told | undefined> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify({ checks: [{ policy, key: [key], maxWait }] });
    const headers = { authorization: `Bearer ${shop.token}`, "content-type": "application/json" };
    const asked = request(
      `${gateway.privateUrl}/sluice/v1/check`,
      { method: "POST", headers: { ...headers, "content-length": Buffer.byteLength(body) }, agent },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        answer.on("end", () => {
          if (answer.statusCode !== 200) reject(new Error(`${answer.statusCode}: ${text}`));
          else resolve({ index, allowed: JSON.parse(text).allowed, atMs: performance.now() });
        });
      },
    );
    asked.on("error", (error) => (leaveMs === undefined ? reject(error) : resolve(undefined)));
    asked.end(body);
    if (leaveMs !== undefined) setTimeout(() => asked.destroy(), leaveMs);
  });
}

/** Sends a check, and closes the connection so many ms later. */
function leaveAt(body: object, ms: number): Promise<void> {
  const { hostname, port } = new URL(gateway.privateUrl);
  const text = JSON.stringify(body);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(
        `POST /sluice/v1/check HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${shop.token}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
      );
      const endMs = performance.now() + ms;
      const close = () => {
        if (performance.now() < endMs) {
          setImmediate(close);
          return;
        }
        socket.destroy();
        resolve();
      };
      close();
    });
    socket.on("error", () => resolve());
    socket.resume();
  });
}

const left = async (policy: string, key: string) =>
  (await check(gateway.privateUrl, shop, [{ policy, key: [key], peek: true }])).results[0];

describe.each(places)("callers of scope $place", ({ place }) => {
  it("have their turns in the order in which they came to both workers, and none is lost", async () => {
    const told: Promise<Told | undefined>[] = [];
    for (let i = 0; i < 40; i++) {
      told.push(wait(i, `slow-${place}`, "order", "20s"));
      // So far apart that their order is certain, and four times as fast as the limit.
      await sleep(12);
    }
    const answers = (await Promise.all(told)) as Told[];
    expect(answers.filter(({ allowed }) => allowed)).toHaveLength(40);
    expect(outOfOrder(answers, 1)).toEqual([]);
  });
});

it("a thousand callers at 100/s have their turns in order, at the rate of the limit, whoever leaves", async () => {
  const count = 1_000;
  const told: Promise<Told | undefined>[] = [];
  const beganMs = performance.now();
  for (let i = 0; i < count; i++) {
    told.push(wait(i, "rate-node", "thousand", "30s", i > 100 && i % 10 === 0 ? 300 : undefined));
    if (i % 2 === 0) await sleep(2);
  }
  const answers = (await Promise.all(told)).filter((answer) => answer !== undefined);
  const stayed = count - 89;
  // One that leaves may have had its turn just before.
  expect(answers.length).toBeGreaterThanOrEqual(stayed);
  expect(answers.filter(({ allowed }) => !allowed)).toEqual([]);
  // A tenth of a second: what callers and answers are late on a busy machine.
  expect(outOfOrder(answers, 10)).toEqual([]);
  const seconds = (Math.max(...answers.map(({ atMs }) => atMs)) - beganMs) / 1_000;
  expect(answers.length).toBeLessThanOrEqual(perSecond * seconds + 2 + 1);
  expect(seconds).toBeLessThan(14);
});

/** Returns whose turn came more than so many places from where they stood. */
function outOfOrder(answers: readonly Told[], tolerance: number): readonly number[] {
  const came = [...answers].sort((a, b) => a.index - b.index).map(({ index }) => index);
  const went = [...answers].sort((a, b) => a.atMs - b.atMs).map(({ index }) => index);
  return came.filter((index, place) => Math.abs(went.indexOf(index) - place) > tolerance);
}

describe("a caller that waits", () => {
  it("and leaves is charged nothing, and its place goes to those behind", async () => {
    await check(gateway.privateUrl, shop, [{ policy: "total", key: ["leaving"], cost: 5 }]);
    const leaving = Array.from({ length: 20 }, (_, i) => wait(i, "total", "leaving", "10s", 300));
    await sleep(150);
    const staying = Array.from({ length: 5 }, (_, i) => wait(i, "total", "leaving", "10s"));
    await Promise.all(leaving);
    const answers = await Promise.all(staying);
    expect(answers.map((answer) => answer?.allowed)).toEqual([true, true, true, true, true]);
    expect(await left("total", "leaving")).toMatchObject({ remaining: 0 });
  });

  it("and leaves while its units are refunded gets all of them back", async () => {
    await check(gateway.privateUrl, shop, [{ policy: "year", key: ["none"] }]);
    // Units of a lease may stay charged: nobody gets more for it.
    for (const place of ["node", "exact"]) {
      const checks = [
        { policy: `many-${place}`, key: ["leaving"] },
        { policy: "year", key: ["none"] },
      ];
      for (let i = 0; i < 300; i++) await leaveAt({ checks }, (i % 80) / 100);
      await sleep(1_000);
      expect(await left(`many-${place}`, "leaving"), place).toMatchObject({ remaining: 1_000 });
    }
  });

  it("does not hold up those behind when it leaves while nginx reloads", async () => {
    await check(gateway.privateUrl, shop, [{ policy: "slow-node", key: ["reload"], cost: 2 }]);
    const first = wait(0, "slow-node", "reload", "20s", 20);
    const beganMs = performance.now();
    const behind = [1, 2, 3].map((index) => wait(index, "slow-node", "reload", "20s"));
    process.kill(gateway.pid, "SIGHUP");
    await first;
    expect((await Promise.all(behind)).map((answer) => answer?.allowed)).toEqual([true, true, true]);
    expect(performance.now() - beganMs).toBeLessThan(5_000);
  });

  it("is refused at once if its units cannot come in time, and after its time at the latest", async () => {
    await check(gateway.privateUrl, shop, [{ policy: "year", key: ["far"] }]);
    const beganMs = performance.now();
    const far = (await check(gateway.privateUrl, shop, [{ policy: "year", key: ["far"], maxWait: "60s" }])).results[0];
    expect(far).toMatchObject({ allowed: false, limit: 1, remaining: 0 });
    expect(performance.now() - beganMs).toBeLessThan(500);
    // Thirty callers at once have a tenth of a second: twelve get units.
    const brief = await Promise.all(Array.from({ length: 30 }, (_, i) => wait(i, "rate-node", "brief", "100ms")));
    const allowed = brief.filter((answer) => answer?.allowed).length;
    expect(allowed).toBeGreaterThanOrEqual(8);
    expect(allowed).toBeLessThanOrEqual(14);
    expect(performance.now() - beganMs).toBeLessThan(1_500);
  });

  it("of a leaky-bucket is answered when it is its turn, or refused without a charge", async () => {
    const turn = (maxWait: string) =>
      check(gateway.privateUrl, shop, [{ policy: "turns", key: ["a"], maxWait }]).then(({ results }) => results[0]);
    expect(await turn("1s")).toMatchObject({ allowed: true });
    const beganMs = performance.now();
    const [second, third, tooLate] = await Promise.all([turn("1s"), turn("1s"), turn("50ms")]);
    expect([second?.["allowed"], third?.["allowed"], tooLate?.["allowed"]]).toEqual([true, true, false]);
    expect(second).not.toHaveProperty("delay");
    expect(Number(second?.["waited"]) + Number(third?.["waited"])).toBeGreaterThan(0.25);
    expect(tooLate?.["waited"]).toBe(0);
    expect(performance.now() - beganMs).toBeGreaterThan(150);
    expect(tooLate?.["retryAfter"]).toBe(1);
    // The refused one has no turn: the next is a tenth of a second after the third.
    expect((await turn("1s"))?.["allowed"]).toBe(true);
    expect(performance.now() - beganMs).toBeLessThan(600);
  });

  it("may be one that auth_request asks for", async () => {
    await check(gateway.privateUrl, shop, [{ policy: "rate-node", key: ["auth"], cost: 2 }]);
    expect((await auth(gateway.privateUrl, shop, "policy=rate-node&key=auth&maxWait=2s")).status).toBe(204);
    const wrong = await auth(gateway.privateUrl, shop, "policy=rate-node&key=auth&maxWait=2");
    expect(JSON.parse(wrong.body).errors).toEqual([
      { path: "maxWait", expected: 'a time like "500ms", of 1ms to 60s', got: '"2"' },
    ]);
  });

  it("comes alone, and is no peek", async () => {
    const one = { policy: "rate-node", key: ["a"] };
    const errorsOf = async (...checks: object[]) =>
      JSON.parse((await post(gateway.privateUrl, shop, JSON.stringify({ checks }))).body).errors;
    expect(await errorsOf(one, { ...one, maxWait: "1s" })).toEqual([
      {
        path: "checks[1].maxWait",
        expected: "a request with one check: several are not waited for",
        got: "one of 2 checks",
      },
    ]);
    expect(await errorsOf({ ...one, maxWait: "1s", peek: true })).toEqual([
      { path: "checks[0].maxWait", expected: "nothing: a peek waits for nothing", got: "1s" },
    ]);
  });
});
