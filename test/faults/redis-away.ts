// Redis cannot be reached, or not in time.

import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../fixtures/free-ports.ts";
import { Program } from "../fixtures/program.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import type { Fault } from "./fault.ts";
import { Namespace } from "./namespace.ts";
import { observe, startSystem } from "./scenario.ts";
import { TcpProxy } from "./tcp-proxy.ts";

const lastsMs = 3000;
const recoversWithinMs = 2000;

export async function startRedis(stack: AsyncDisposableStack, args: readonly string[] = []): Promise<RedisServer> {
  const redis = new RedisServer(await freePort(), {}, args);
  await redis.start();
  stack.defer(() => redis.stop("SIGKILL"));
  return redis;
}

/** Two gateways that reach a Redis through a proxy. */
export async function startBehindProxy(stack: AsyncDisposableStack) {
  const redis = await startRedis(stack);
  const proxy = await TcpProxy.start(redis.port);
  stack.defer(() => proxy.refuse());
  const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: proxy.url } });
  return { proxy, redis, system };
}

export const refused: Fault = {
  number: 1,
  name: "Redis refused",
  async run(stack) {
    const { proxy, system } = await startBehindProxy(stack);
    return observe(stack, {
      system,
      decides: "shares",
      recoversWithinMs,
      async inject() {
        await proxy.refuse();
        await sleep(lastsMs);
        await proxy.accept();
        return undefined;
      },
    });
  },
};

export const blackHoled: Fault = {
  number: 2,
  name: "Redis black-holed",
  needsRoot: true,
  async run(stack) {
    const namespace = Namespace.create();
    stack.defer(() => namespace.remove());
    const port = await freePort();
    const [command, ...args] = [...namespace.command, "redis-server", "--port", `${port}`] as [string, ...string[]];
    const redis = await Program.start({
      command,
      args: [...args, "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""],
      readyWhen: /Ready to accept connections/,
    });
    stack.defer(() => redis.stop("SIGKILL"));
    const system = await startSystem(stack, {
      gateways: 2,
      env: { SLUICE_REDIS_URL: `redis://${namespace.address}:${port}` },
    });
    return observe(stack, {
      system,
      decides: "shares",
      recoversWithinMs,
      async inject() {
        namespace.drop(port);
        await sleep(lastsMs);
        namespace.pass();
        return undefined;
      },
    });
  },
};

export const slow: Fault = {
  number: 3,
  name: "Redis +200 ms",
  async run(stack) {
    const { proxy, system } = await startBehindProxy(stack);
    return observe(stack, {
      system,
      decides: "shares",
      recoversWithinMs,
      async inject() {
        proxy.delayMs = 100;
        await sleep(lastsMs);
        proxy.delayMs = 0;
        return undefined;
      },
    });
  },
};
