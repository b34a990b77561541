// Windows of the calendar where other parts meet them: Redis' clock is not the gateway's, responses are the cost, an override goes by
// another zone, the check API asks, and Redis is away.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { check } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

const seconds = (text: string) => Date.parse(text) / 1000;
const hour = 3600;
const minute = 60;
const noon = seconds("2026-10-24T12:00:00Z");
const scopes = ["node", "cluster"] as const;
const window = (unit: string, quota: number, more = {}) => [
  { name: unit, algorithm: "fixed-window", quota, window: unit, ...more },
];
const berlin = { timezone: "Europe/Berlin" };
const at = (name: string) => ({ name, match: { paths: [`/${name}`, `/${name}/*`] } });

/** Answers /name/BYTES with as many bytes. */
const upstream = createServer((incoming, response) => {
  response.end("x".repeat(Number((incoming.url ?? "").split("/").at(-1)) || 0));
});
const gatewayClock = new SetClock(noon);
const redisClock = new SetClock(noon);
let redis: RedisServer;
let system: System;
let caller: { app: string; token: string };

function setBoth(to: number): void {
  redisClock.set(to);
  gatewayClock.set(to);
}

beforeAll(async () => {
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  redis = new RedisServer(await freePort(), redisClock.redisEnv);
  await redis.start();
  system = await System.start({
    clock: gatewayClock,
    env: {
      SLUICE_REDIS_URL: redis.url,
      SLUICE_UPSTREAM: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    },
  });
  const cluster = { scope: "cluster" };
  for (const name of ["behind", "ahead", "hours-behind"]) {
    await system.put({ ...at(name), ...cluster, limits: window("hour", 2) });
  }
  for (const scope of scopes) {
    const limits = window("day", 100, berlin);
    await system.put({ ...at(`bytes-${scope}`), scope, limits, cost: { from: "response-bytes" } });
    const overrides = [{ key: ["vip"], limits: window("day", 9, { timezone: "Asia/Kathmandu" }) }];
    await system.put({
      ...at(`vip-${scope}`),
      scope,
      key: ["header:x-user"],
      limits: window("day", 5, berlin),
      overrides,
    });
    await system.put({ ...at(`asked-${scope}`), scope, key: ["header:x-user"], limits: window("day", 5, berlin) });
    await system.put({ ...at(`shadow-${scope}`), scope, mode: "shadow", limits: window("day", 1, berlin) });
  }
  await system.put({ ...at("away"), ...cluster, limits: window("month", 4, berlin) });
  const made = await system.api("POST", "/tokens?wait=30s", { name: "asks", app: "default", role: "caller" });
  caller = { app: "default", token: JSON.parse(made.body).token };
});
afterAll(async () => {
  await system?.stop();
  await redis?.stop();
  upstream.close();
  gatewayClock.remove();
  redisClock.remove();
});

const get = (path: string, headers = {}, method = "GET") =>
  ask(`${system.gateways[0]?.url}${path}`, { headers, method });

async function statusesOf(path: string, requests: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < requests; i++) statuses.push((await get(path)).status);
  return statuses;
}

describe("an hour by Redis' clock", () => {
  it.each([
    ["ahead", -50 * minute],
    ["behind", 50 * minute],
  ])("ends when Redis says so: the gateway's clock is %s by 50 minutes", async (name, gatewayLateBy) => {
    const path = `/${name}`;
    const gatewayAt = (redisAt: number) => redisAt - gatewayLateBy;
    redisClock.set(noon + 30 * minute);
    gatewayClock.set(gatewayAt(noon + 30 * minute));
    expect(await statusesOf(path, 3)).toEqual([200, 200, 429]);
    const refused = await get(path);
    expect([refused.headers["ratelimit"], refused.headers["retry-after"]]).toEqual(['"hour";r=0;t=1800', "1800"]);
    redisClock.set(noon + hour - 1);
    gatewayClock.set(gatewayAt(noon + hour - 1));
    expect(await statusesOf(path, 1)).toEqual([429]);
    redisClock.set(noon + hour);
    gatewayClock.set(gatewayAt(noon + hour));
    const first = await get(path);
    expect([first.status, first.headers["ratelimit"]]).toEqual([200, '"hour";r=1;t=3600']);
    expect(await statusesOf(path, 2)).toEqual([200, 429]);
  });

  it("has no more than its quota from a gateway that is three hours behind, which tells to come back in a minute", async () => {
    redisClock.set(noon + 4 * hour);
    gatewayClock.set(noon + hour);
    expect(await statusesOf("/hours-behind", 3)).toEqual([200, 200, 429]);
    expect((await get("/hours-behind")).headers["retry-after"]).toBe("60");
    setBoth(noon + 4 * hour + 2 * minute);
    const refused = await get("/hours-behind");
    expect([refused.status, refused.headers["retry-after"]]).toEqual([429, `${58 * minute}`]);
  });
});

describe.each(scopes)("in scope %s, a day in Berlin", (scope) => {
  it("and the two after it pay what a response took", async () => {
    setBoth(noon);
    const path = `/bytes-${scope}`;
    expect((await get(`${path}/250`)).status).toBe(200);
    // The charge comes after the response.
    await until("the charge is known", async () => (await get(path, {}, "HEAD")).status === 429);
    const left = async (moment: string) => {
      setBoth(seconds(moment));
      const { status, headers } = await get(path, {}, "HEAD");
      return [status, headers["ratelimit"], headers["retry-after"]];
    };
    // Sunday has 25 hours.
    expect(await left("2026-10-24T21:59:59Z")).toEqual([429, expect.anything(), `${25 * hour + 1}`]);
    expect((await left("2026-10-25T22:59:59Z"))[0]).toBe(429);
    expect(await left("2026-10-25T23:00:00Z")).toEqual([200, `"day";r=50;t=${24 * hour}`, undefined]);
    expect(await left("2026-10-26T23:00:00Z")).toEqual([200, `"day";r=100;t=${24 * hour}`, undefined]);
  });

  it("is one in Kathmandu for whom an override says so", async () => {
    setBoth(noon);
    const path = `/vip-${scope}`;
    const untilBerlin = seconds("2026-10-24T22:00:00Z") - noon;
    const untilKathmandu = seconds("2026-10-24T18:15:00Z") - noon;
    expect((await get(path, { "x-user": "any" })).headers["ratelimit"]).toBe(`"day";r=4;t=${untilBerlin}`);
    expect((await get(path, { "x-user": "vip" })).headers["ratelimit"]).toBe(`"day";r=8;t=${untilKathmandu}`);
  });

  it("is asked for by the check API, which tells the real time that is left", async () => {
    setBoth(seconds("2026-10-24T22:00:00Z"));
    const policy = `asked-${scope}`;
    const { privateUrl } = system.gateways[0] as { privateUrl: string };
    const told = { limit: 5, retryAfter: 0, resetAfter: 25 * hour };
    const charged = await check(privateUrl, caller, [{ policy, key: ["a"], cost: 4 }]);
    expect(charged.results[0]).toMatchObject({ ...told, allowed: true, remaining: 1 });
    const refused = await check(privateUrl, caller, [{ policy, key: ["a"], cost: 2 }]);
    expect(refused.results[0]).toMatchObject({ allowed: false, remaining: 1, retryAfter: 25 * hour });
  });

  it("never changes a response in shadow mode", async () => {
    setBoth(noon);
    const answers = [await get(`/shadow-${scope}`), await get(`/shadow-${scope}`)];
    expect(answers.map(({ status, headers }) => [status, headers["ratelimit"]])).toEqual([
      [200, undefined],
      [200, undefined],
    ]);
  });
});

it("while Redis is away, a month goes on by a share, and what it took is charged when Redis is back", async () => {
  setBoth(seconds("2026-11-30T22:30:00Z"));
  expect(await statusesOf("/away", 1)).toEqual([200]);
  await redis.stop();
  expect(await statusesOf("/away", 3)).toEqual([200, 200, 200]);
  await redis.start();
  await until("Redis decides again", async () => {
    setBoth(seconds("2026-11-30T22:30:00Z"));
    const { status, headers } = await get("/away");
    return status === 429 && headers["retry-after"] === `${30 * minute}`;
  });
  setBoth(seconds("2026-11-30T23:00:00Z"));
  await until("December begins", async () => (await get("/away")).status === 200);
});
