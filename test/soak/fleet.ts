// The fleet under soak: two gateways of two workers, a control plane, a Redis behind a proxy, and a service that reports when
// it had each request in hand. As root, each gateway has a network namespace of its own in which packets can be dropped.

import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Namespace } from "../faults/namespace.ts";
import { startRedis, startSystem } from "../faults/scenario.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import type { RedisServer } from "../fixtures/servers/redis-server.ts";
import type { System } from "../fixtures/servers/system.ts";
import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";

export const gatewayCount = 2;
export const workerCount = 2;
/** How long the service takes for a request that holds a slot. */
const heldMs = 200;

export interface Fleet {
  readonly system: System;
  readonly redis: RedisServer;
  readonly proxy: TcpProxy;
  /** One namespace for each gateway; empty without root. */
  readonly namespaces: readonly Namespace[];
  readonly upstreamPort: number;
}

export async function startFleet(stack: AsyncDisposableStack, asRoot: boolean): Promise<Fleet> {
  const namespaces = asRoot ? Array.from({ length: gatewayCount }, () => createNamespace(stack)) : [];
  const host = asRoot ? "0.0.0.0" : "127.0.0.1";
  const directory = mkdtempSync(join(tmpdir(), "sluice-soak-"));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  // A Redis that starts with many keys pauses for each and replies LOADING meanwhile.
  const slowly = ["--key-load-delay", "100", "--loading-process-events-interval-bytes", "1024"];
  const redis = await startRedis(stack, ["--dir", directory, ...slowly]);
  const proxy = await TcpProxy.start(redis.port, host);
  stack.defer(() => proxy.refuse());
  const upstreamPort = await startService(stack, host);
  const system = await startSystem(stack, {
    gateways: asRoot ? 0 : gatewayCount,
    workers: workerCount,
    env: {
      SLUICE_REDIS_URL: proxy.url,
      SLUICE_UPSTREAM: `http://127.0.0.1:${upstreamPort}`,
      ...(asRoot && { SLUICE_CONTROL_HOST: host }),
    },
  });
  for (const { command, address, hostAddress } of namespaces) {
    await system.addGateway(command, address, {
      SLUICE_REDIS_URL: `redis://${hostAddress}:${proxy.port}`,
      SLUICE_CONTROL_URL: system.controlUrl.replace("127.0.0.1", hostAddress),
      SLUICE_UPSTREAM: `http://${hostAddress}:${upstreamPort}`,
    });
  }
  return { system, redis, proxy, namespaces, upstreamPort };
}

function createNamespace(stack: AsyncDisposableStack): Namespace {
  const namespace = Namespace.create();
  stack.defer(() => namespace.remove());
  return namespace;
}

/** Answers at once, except that it holds requests for /slots. It reports from when until when, by the load's clock. */
async function startService(stack: AsyncDisposableStack, host: string): Promise<number> {
  const server = createServer({ keepAliveTimeout: 75_000 }, async (request, response) => {
    request.resume();
    const beganAtMs = performance.now();
    if (request.url?.startsWith("/slots")) await sleep(heldMs);
    response.writeHead(200, { "content-length": 4, "x-began-ms": beganAtMs, "x-ended-ms": performance.now() });
    response.end("done");
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  stack.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  return port;
}
