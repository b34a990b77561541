// nginx runs a Lua timer only if it has a connection to spare, and drops the timer without a word otherwise.

import { createConnection, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import { freePorts } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { until } from "../../fixtures/until.ts";

const connections = 64;

let redis: RedisServer;
let gateway: LoneGateway;
let held: Socket[] = [];

beforeAll(async () => {
  const [port] = (await freePorts(1)) as [number];
  redis = new RedisServer(port);
  await redis.start();
  gateway = await LoneGateway.start({
    policies: [
      {
        name: "lone",
        scope: "cluster",
        match: { paths: ["/lone"] },
        limits: [{ algorithm: "fixed-window", quota: 100_000, window: "1d" }],
      },
      {
        name: "line",
        scope: "cluster",
        match: { paths: ["/line"] },
        limits: [{ algorithm: "leaky-bucket", quota: 1, window: "10s", burst: 100, maxDelay: "1h" }],
      },
    ],
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "600" },
    edit: (config) => config.replace(/worker_connections \d+;/, `worker_connections ${connections};`),
  });
});
afterEach(() => letGo());
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
});

/** Holds all connections by requests that have begun, one after the other: nginx closes those that have sent nothing yet. */
async function takeAllConnections(): Promise<void> {
  const { hostname, port } = new URL(gateway.url);
  for (let i = 0; i < connections + 10; i++) {
    const socket = createConnection({ host: hostname, port: Number(port) });
    socket.on("error", () => {});
    socket.write("GET /line HTTP/1.1\r\nHost: a\r\n");
    held.push(socket);
    await sleep(5);
  }
}

function letGo(): void {
  for (const socket of held) socket.destroy();
  held = [];
}

/** @returns calls of scripts, as Redis counts them */
async function scriptCalls(): Promise<number> {
  const stats = String(await redis.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

it("calls Redis again once it has a connection, though nginx dropped the timers for the probe", async () => {
  await ask(`${gateway.url}/line`);
  await redis.stop();
  await takeAllConnections();
  // Requests that are decided now wait their turn, and keep their connections.
  for (const socket of held) socket.write("\r\n");
  await sleep(300);
  expect(gateway.log).toContain("could not create fake connection");
  letGo();
  await redis.start();
  await until("Redis decides again", async () => {
    const before = await scriptCalls();
    expect((await ask(`${gateway.url}/lone`)).status).toBe(404);
    return (await scriptCalls()) > before;
  });
});
