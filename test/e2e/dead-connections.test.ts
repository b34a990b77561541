// The other end of connections is gone without a word: a host died, or a firewall has forgotten them.

import { createConnection, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freePorts } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask, askAtOnce } from "../fixtures/requests.ts";
import { until } from "../fixtures/system.ts";

const connections = 40;

let redis: RedisServer;
let gateway: LoneGateway;
/** Stands in front of Redis. */
let proxy: Server;
let through: Socket[] = [];

beforeAll(async () => {
  const [port, proxyPort] = (await freePorts(2)) as [number, number];
  redis = new RedisServer(port);
  await redis.start();
  proxy = createServer((socket) => {
    const inner = createConnection({ host: "127.0.0.1", port });
    socket.on("error", () => inner.destroy());
    socket.on("close", () => inner.destroy());
    inner.on("error", () => {});
    socket.pipe(inner).pipe(socket);
    through.push(socket);
  });
  await new Promise<void>((resolve) => proxy.listen(proxyPort, "127.0.0.1", resolve));
  gateway = await LoneGateway.start({
    policies: [
      {
        name: "exact",
        scope: "cluster",
        consistency: "leased",
        key: ["header:x-user"],
        match: { paths: ["/exact"] },
        limits: [{ algorithm: "fixed-window", quota: 1000, window: "1h" }],
      },
      {
        name: "lone",
        scope: "cluster",
        match: { paths: ["/lone"] },
        limits: [{ algorithm: "fixed-window", quota: 100_000, window: "1d" }],
      },
    ],
    env: { SLUICE_REDIS_URL: `redis://127.0.0.1:${proxyPort}`, SLUICE_REDIS_DEADLINE_MS: "2000" },
  });
});
afterAll(async () => {
  redis?.goOn();
  await gateway?.stop();
  for (const socket of through) socket.destroy();
  proxy?.close();
  await redis?.stop();
});

it("all fail over together: Redis decides again as soon as it can", async () => {
  redis.hang();
  const asked = Promise.all(
    Array.from({ length: connections }, (_, i) => ask(`${gateway.url}/exact`, { headers: { "x-user": `${i}` } })),
  );
  await until("each has a connection", 2000, () => through.length >= connections);
  redis.goOn();
  await asked;
  // From now on each of these connections resets at the first byte sent to it; a new connection works.
  const dead = through;
  through = [];
  for (const socket of dead) {
    socket.unpipe();
    socket.removeAllListeners("data");
    socket.on("data", () => socket.resetAndDestroy());
    socket.resume();
  }
  const url = `${gateway.url}/lone`;
  for (let i = 0; i < 4; i++) await ask(url);
  const startedAtMs = performance.now();
  await until("the breaker is closed", 30_000, async () => (await gateway.metric("sluice_redis_breakers_open")) === 0);
  await until("Redis decides again", 30_000, async () => {
    await ask(url);
    return through.length > 0;
  });
  const tookMs = performance.now() - startedAtMs;
  expect(await askAtOnce([url], 20)).toEqual({ 404: 20 });
  expect(tookMs).toBeLessThan(2000);
});
