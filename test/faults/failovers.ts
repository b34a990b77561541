// The store of a counter moves: to a replica that takes a killed primary's place, and from node to node of a Cluster.

import { setTimeout as sleep } from "node:timers/promises";
import { rightsOf } from "../fixtures/documents/documented-rights.ts";
import { atLeast } from "../fixtures/measures/fact.ts";
import { RedisCluster } from "../fixtures/servers/redis-cluster.ts";
import { primaryName, RedisSentinel, sentinelPassword } from "../fixtures/servers/redis-sentinel.ts";
import type { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until } from "../fixtures/until.ts";
import type { Fault } from "./fault.ts";
import { repliesFact } from "./redis-replies.ts";
import { observe, startSystem } from "./scenario.ts";

const password = "of-the-faults";

const primaryKilled: Fault = {
  number: 5,
  name: "kill -9 of a primary with replica and Sentinel",
  async run(stack) {
    const redis = await RedisSentinel.start(["sluice", "on", `>${password}`, ...rightsOf("Sentinel")]);
    stack.defer(() => redis.stop());
    const ports = redis.sentinels.map(({ port }) => port);
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
    const url = `redis+sentinel://sluice:${password}@${hosts}/${primaryName}?sentinel=:${sentinelPassword}`;
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: url } });
    return observe(stack, {
      system,
      decides: "shares",
      // The primary is considered down after 1 s. Another is elected and promoted within 2 s, or 4 s later after a split vote.
      recoversWithinMs: 10_000,
      recoversFrom: "beginning",
      async inject() {
        const [sentinel] = ports as [number];
        const killed = await redis.primaryOf(sentinel);
        await redis.kill(killed);
        await until("there is another primary", async () => (await redis.primaryOf(sentinel)) !== killed);
        return undefined;
      },
    });
  },
};

const reshard: Fault = {
  number: 8,
  name: "MOVED and ASK during a reshard of a 3-node Cluster",
  async run(stack) {
    const redis = await RedisCluster.start(3, ["--user", "sluice", "on", `>${password}`, ...rightsOf("Cluster")]);
    stack.defer(() => redis.stop());
    const system = await startSystem(stack, {
      gateways: 2,
      env: { SLUICE_REDIS_URL: redis.url(`sluice:${password}@`) },
    });
    let moved = 0;
    return observe(stack, {
      system,
      limit: { quota: 10, keys: Array.from({ length: 12 }, (_, i) => `key-${i}`), ratePerSecond: 300 },
      decides: "counter",
      async inject() {
        for (const [from, key] of await keysOf(redis)) {
          const slot = await redis.slotOf(key);
          const to = redis.nodes[(redis.nodes.indexOf(from) + 1) % redis.nodes.length] as RedisServer;
          await redis.beginMove(slot, from, to);
          await sleep(50);
          await redis.moveKeys(slot, from, to);
          // Until the slot is announced as moved, each request for it is redirected by ASK.
          await sleep(150);
          await redis.endMove(slot, to);
          moved += 1;
        }
        return undefined;
      },
      moreFacts: async () => [
        atLeast("slots moved, each with its counter", 12, moved),
        await repliesFact("ASK", redis.nodes),
        await repliesFact("MOVED", redis.nodes),
      ],
    });
  },
};

async function keysOf(redis: RedisCluster): Promise<[RedisServer, string][]> {
  const keys: [RedisServer, string][] = [];
  for (const node of redis.nodes) {
    for (const key of (await node.command("KEYS", "*")) as string[]) keys.push([node, key]);
  }
  return keys;
}

export const faults = [primaryKilled, reshard];
