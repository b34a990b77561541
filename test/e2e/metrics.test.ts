// Reads a gateway's metrics for Prometheus with a strict reader of the text format.

import { afterEach, beforeEach, expect, it } from "vitest";
import { callerOf, check, post } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { type Family, readPrometheusText } from "../fixtures/measures/prometheus-text.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until, untilPasses } from "../fixtures/until.ts";

const shop = { app: "default", token: "a-token-of-the-shop" };
const bucket = (name: string, more: object = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-key"],
  limits: [{ algorithm: "token-bucket", quota: 1, window: "1d", burst: 2 }],
  ...more,
});

let control: ControlPlaneDouble;
let redis: RedisServer;
let gateway: LoneGateway;
beforeEach(async () => {
  const [controlPort, redisPort] = (await freePorts(2)) as [number, number];
  control = new ControlPlaneDouble(controlPort);
  redis = new RedisServer(redisPort);
  await redis.start();
  gateway = await LoneGateway.start({
    workers: 2,
    policies: [bucket("node"), bucket("fleet", { scope: "cluster" }), bucket("shadow", { mode: "shadow" })],
    callers: [callerOf(shop)],
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}` },
  });
});
afterEach(async () => {
  await gateway?.stop();
  await control?.stop();
  await redis?.stop();
});

async function scrape(): Promise<Record<string, Family>> {
  const { headers, body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
  expect(headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
  return readPrometheusText(body);
}

const latest = (families: Record<string, Family>, family: string, labels: Record<string, string> = {}) =>
  families[family]?.samples.find((sample) => Object.entries(labels).every(([name, is]) => sample.labels[name] === is))
    ?.value;

const decisions = async (policy: string, result: string) =>
  latest(await scrape(), "sluice_decisions_total", { app: "default", policy, result });

const degraded = async (policy: string) =>
  latest(await scrape(), "sluice_degraded_decisions_total", { app: "default", policy });

it("reports the Lua memory of each worker", async () => {
  await until("both have told", async () => (await scrape())["sluice_lua_memory_bytes"]?.samples.length === 2);
  for (const { labels, value } of (await scrape())["sluice_lua_memory_bytes"]?.samples ?? []) {
    expect(["0", "1"]).toContain(labels["worker"]);
    expect(value).toBeGreaterThan(1_000_000);
    expect(value).toBeLessThan(50_000_000);
  }
});

it("is in Prometheus' text format, and counts decisions, calls to Redis, failures and checks", async () => {
  await check(gateway.privateUrl, shop, [{ policy: "node", key: ["a"] }]);
  for (const name of ["node", "fleet", "shadow"]) {
    for (let i = 0; i < 3; i++) await ask(`${gateway.url}/${name}`, { headers: { "x-key": "a" } });
  }
  for (let i = 0; i < 3; i++) await check(gateway.privateUrl, shop, [{ policy: "shadow", key: ["b"] }]);
  await post(gateway.privateUrl, { ...shop, token: "unknown" }, "{}");
  // Each worker reports its own counts.
  await until("all workers have told what they counted", async () => {
    const families = await scrape();
    const asked = families["sluice_check_requests_total"]?.samples.reduce((sum, { value }) => sum + value, 0);
    const decided = families["sluice_decisions_total"]?.samples.reduce((sum, { value }) => sum + value, 0);
    return asked === 5 && decided === 13;
  });
  expect(await decisions("node", "allowed")).toBe(2);
  expect(await decisions("node", "refused")).toBe(2);
  expect(await decisions("fleet", "allowed")).toBe(2);
  expect(await decisions("fleet", "refused")).toBe(1);

  const families = await scrape();
  expect(latest(families, "sluice_check_requests_total", { status: "200" })).toBe(4);
  const calls = families["sluice_redis_call_duration_seconds"]?.samples ?? [];
  expect(calls.find(({ name }) => name.endsWith("_count"))?.value).toBe(3);
  const seconds = calls.find(({ name }) => name.endsWith("_sum"))?.value;
  expect(seconds).toBeGreaterThan(0);
  expect(seconds).toBeLessThan(60);
  expect(latest(families, "sluice_workers")).toBe(2);
  expect(latest(families, "sluice_snapshot_revision")).toBe(1);
  expect(latest(families, "sluice_snapshot_policies")).toBe(3);
  expect(latest(families, "sluice_snapshot_age_seconds")).toBeLessThan(120);
  expect(families["sluice_build_info"]?.samples).toMatchObject([
    { labels: { version: "0.1.0", nginx: expect.stringMatching(/^\d+\.\d+\.\d+$/) }, value: 1 },
  ]);

  await redis.stop();
  // The request has another key: the refusal of "a" is remembered, and needs no call to Redis.
  await ask(`${gateway.url}/fleet`, { headers: { "x-key": "b" } });
  await until("the failure is told", async () =>
    Boolean(latest(await scrape(), "sluice_redis_failures_total", { kind: "connect" })),
  );
  expect(await degraded("fleet")).toBe(1);
});

it("counts a refusal for the cluster policy that refuses, and not for another one of the request", async () => {
  const both = { scope: "cluster", match: { paths: ["/both"] } };
  const many = [{ algorithm: "token-bucket", quota: 1, window: "1d", burst: 9 }];
  await control.push(
    [
      { app: "default", document: bucket("few", both) },
      { app: "default", document: bucket("many", { ...both, limits: many }) },
    ],
    [],
  );
  for (let i = 0; i < 3; i++) await ask(`${gateway.url}/both`, { headers: { "x-key": "a" } });
  const allowed = async () => [await decisions("few", "allowed"), await decisions("many", "allowed")];
  await until("the refusal is told", async () => (await decisions("few", "refused")) === 1);
  await untilPasses(async () => expect(await allowed()).toEqual([2, 3]));
  expect(await decisions("many", "refused")).toBeUndefined();

  await redis.stop();
  await ask(`${gateway.url}/both`, { headers: { "x-key": "b" } });
  await until("that Redis is gone is told", async () => (await degraded("few")) === 1);
  await untilPasses(async () => expect(await allowed()).toEqual([3, 4]));
});

it("drops the series of a removed policy, and rejects the token of its removed caller", async () => {
  await check(gateway.privateUrl, shop, [{ policy: "node", key: ["a"] }]);
  await until("the decision is told", async () => (await decisions("node", "allowed")) === 1);
  const bank = { app: "bank", token: "a-token-of-the-bank" };
  await control.push([{ app: "bank", document: bucket("node") }], [callerOf(bank)]);
  expect(await decisions("node", "allowed")).toBeUndefined();
  expect(latest(await scrape(), "sluice_snapshot_policies")).toBe(1);
  expect((await post(gateway.privateUrl, shop, "{}")).status).toBe(401);
  expect((await check(gateway.privateUrl, bank, [{ policy: "node", key: ["a"] }])).allowed).toBe(true);
});
