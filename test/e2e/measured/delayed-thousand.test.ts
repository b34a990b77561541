// A thousand requests wait in one worker: they depart when the algorithm says, the worker serves others meanwhile, and the
// memory that they took is freed. test/gateway/charging/delay_spec.lua has the order and the moments exactly, for many schedules.

import { type ClientRequest, createServer, get, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { until } from "../../fixtures/until.ts";

const requests = 1000;
/** Each sends fifty requests, with departures far enough apart that a busy machine's delays do not blur them. */
const clients = 20;
const spacingMs = 50;

const leaky = (name: string, quota: number) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-client"],
  limits: [{ algorithm: "leaky-bucket", quota, window: "1s", burst: requests }],
});
const delayed = (name: string, quota: number, maxWaiting = requests) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-client"],
  limits: [{ algorithm: "token-bucket", quota, window: "1s", burst: 2 }],
  onLimit: { action: "delay", maxDelay: "60s", maxWaiting, status: 503 },
});
const policies = [leaky("leaky", 1000 / spacingMs), delayed("delayed", 1000 / spacingMs), delayed("crowded", 100)];

/** Counts in the worker, and tells the service. */
const counts = (what: string) =>
  `package.loaded.${what} = (package.loaded.${what} or 0) + 1 ngx.req.set_header("x-${what}", package.loaded.${what})`;

const tellsTime = 'ngx.update_time() ngx.req.set_header("x-departed-at", ngx.now())';

interface Arrival {
  readonly atMs: number;
  /** By the gateway's clock. */
  readonly departedAtMs: number;
  readonly client: string;
  /** The worker's count of requests that have come, when this one came. */
  readonly begun: number;
  /** Its count of requests that have departed, when this one did. */
  readonly departed: number;
}

const arrivals: Arrival[] = [];
let service: Server;
let gateway: LoneGateway;

beforeAll(async () => {
  service = createServer({ keepAliveTimeout: 60_000 }, ({ headers }, response) => {
    const client = `${headers["x-client"]}`;
    arrivals.push({
      atMs: performance.now(),
      departedAtMs: 1000 * Number(headers["x-departed-at"]),
      client,
      begun: Number(headers["x-begun"]),
      departed: Number(headers["x-departed"]),
    });
    response.end("done");
  });
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  gateway = await LoneGateway.start({
    policies,
    env: { SLUICE_UPSTREAM: `http://127.0.0.1:${(service.address() as AddressInfo).port}` },
    edit: (config) =>
      config.replace("sluice.access()", `sluice.access() ${counts("departed")} ${tellsTime}`).replace(
        "location / {",
        `location = /heap {
          content_by_lua_block { collectgarbage() collectgarbage() ngx.print(collectgarbage("count")) }
        }
        location = /departed { content_by_lua_block { ngx.print(package.loaded.departed) } }
        location = /connections { content_by_lua_block { ngx.print(ngx.var.connections_active) } }
        location / {
          rewrite_by_lua_block { ${counts("begun")} }`,
      ),
  });
});
afterAll(async () => {
  await gateway?.stop();
  service?.close();
  service?.closeAllConnections();
});

const number = async (path: string) => Number((await ask(`${gateway.url}${path}`)).body);
const heapBytes = async () => 1024 * (await number("/heap"));
const freeBytes = () => gateway.metric("sluice_counters_free_bytes");
const percentile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] as number;

describe("a thousand requests that wait, as many as may", () => {
  /** Statuses of requests whose clients have not gone. */
  const statuses: number[] = [];

  function sendToCrowd(count: number): ClientRequest[] {
    return Array.from({ length: count }, () => {
      const request = get(`${gateway.url}/crowded`, { agent: false, headers: { "x-client": "one" } }, (response) => {
        response.resume();
        statuses.push(response.statusCode as number);
      });
      return request.on("error", () => {});
    });
  }

  it("leave their places to others when their clients go away", async () => {
    // More than a thousand are sent, because a hundred depart each second.
    const leaving = sendToCrowd(requests + 300);
    await until("the line is full", () => statuses.includes(503));
    await until("all have come", async () => (await number("/connections")) < requests + 10);
    const refused = statuses.filter((status) => status === 503).length;
    expect(refused).toBeLessThanOrEqual(300);
    for (const request of leaving) request.destroy();
    await until("they have gone", async () => (await number("/connections")) < 5);
    statuses.length = 0;
    const departedBefore = await number("/departed");
    await sleep(100);
    // Requests of clients that left go nowhere.
    expect(await number("/departed")).toBe(departedBefore);
    const sentAtMs = performance.now();
    const next = sendToCrowd(50);
    await until("all have been answered", () => statuses.length === next.length);
    expect(new Set(statuses)).toEqual(new Set([200]));
    // The new requests do not wait behind those that left, whose turns would take ten seconds.
    expect(performance.now() - sentAtMs).toBeLessThan(9_000);
  });
});

/** Half of the clients are shaped by a leaky-bucket, and the other half is delayed. */
const isLeaky = (client: number) => client % 2 === 0;

async function send(count: number, prefix = ""): Promise<number[]> {
  const answered: Promise<number>[] = [];
  for (let i = 0; i < count; i++) {
    const client = i % clients;
    const path = isLeaky(client) ? `/${prefix}leaky` : `/${prefix}delayed`;
    const headers = { "x-client": `${client}` };
    answered.push(ask(gateway.url + path, { headers }).then(({ status }) => status));
    // The kernel keeps 511 connections until nginx accepts them; the others would have to be opened again a second later.
    if (i % 250 === 249) await sleep(20);
  }
  return Promise.all(answered);
}

it("a thousand requests at once, of twenty clients that may have 20/s each, depart 50 ms apart, in order, while others are served, and free their memory", async () => {
  arrivals.length = 0;
  const sentAtMs = performance.now();
  const answered = send(requests);
  await until("they wait", async () => (await number("/connections")) > requests / 2);
  const others: number[] = [];
  const late: number[] = [];
  while (arrivals.length < 0.9 * requests) {
    const askedAtMs = performance.now();
    expect((await ask(`${gateway.url}/other`, { headers: { "x-client": "other" } })).status).toBe(200);
    others.push(performance.now() - askedAtMs);
    const sleptAtMs = performance.now();
    await sleep(10);
    late.push(performance.now() - sleptAtMs - 10);
  }
  expect(new Set(await answered)).toEqual(new Set([200]));

  const deviations: number[] = [];
  for (let client = 0; client < clients; client++) {
    const atOnce = isLeaky(client) ? 1 : 2;
    const own = arrivals.filter((arrival) => arrival.client === `${client}`);
    expect(own).toHaveLength(requests / clients);
    const inOrder = own.toSorted((a, b) => a.departed - b.departed);
    const begun = inOrder.map((arrival) => arrival.begun);
    const asTheyCame = begun.toSorted((a, b) => a - b);
    if (!isLeaky(client)) expect(begun).toEqual(asTheyCame);
    // A leaky-bucket's turn counts from nginx's cached time, which is late while the worker begins with many requests.
    for (const [i, number] of begun.entries()) expect(Math.abs(asTheyCame.indexOf(number) - i)).toBeLessThan(10);
    for (const [i, { atMs, departedAtMs }] of inOrder.entries()) {
      // A request never departs before the algorithm allows it, to nginx's millisecond.
      expect(atMs - sentAtMs).toBeGreaterThan((i + 1 - atOnce) * spacingMs - 3);
      const before = inOrder[i - 1];
      if (before !== undefined && i >= atOnce)
        deviations.push(Math.abs(departedAtMs - before.departedAtMs - spacingMs));
    }
  }
  // A busy machine is late with any timer. That lateness, at both ends of a gap, is not the gateway's.
  const excused = 2 * Math.max(0, percentile(late, 0.5) - 1);
  expect(percentile(deviations, 0.5)).toBeLessThanOrEqual(5 + excused);

  expect(others.length).toBeGreaterThan(10);
  expect(percentile(others, 0.5)).toBeLessThan(50);
  expect(percentile(others, 0.99)).toBeLessThan(1_000);

  const haveEnded = () => until("the connections have ended", async () => (await number("/connections")) < 5);
  // nginx keeps the memory that its first thousand requests at once took, for the next ones.
  await haveEnded();
  const [heapBefore, freeBefore] = [await heapBytes(), await freeBytes()];
  await send(requests, "again-");
  await haveEnded();
  expect((await heapBytes()) - heapBefore).toBeLessThan(250 * requests);
  expect(freeBefore - (await freeBytes())).toBeLessThanOrEqual(4096);
});
