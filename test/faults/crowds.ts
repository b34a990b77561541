// Much more load comes than usual: many requests for one key, or everybody's connections at once.

import { setTimeout as sleep } from "node:timers/promises";
import { Load } from "../fixtures/clients/load.ts";
import { askAtOnce } from "../fixtures/clients/requests.ts";
import { atMost, fact } from "../fixtures/measures/fact.ts";
import type { Fault } from "./fault.ts";
import { observe, startRedis, startSystem } from "./scenario.ts";

const hotKey: Fault = {
  number: 18,
  name: "hot key at 10 ×",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    const urls = system.gateways.map(({ url }) => `${url}/under-fault`);
    const bystander = new Load(urls, 50, ["bystander"]);
    stack.defer(() => bystander.stop());
    return observe(stack, {
      system,
      limit: { quota: 100, keys: ["hot"], ratePerSecond: 100 },
      decides: "counter",
      async inject(load) {
        bystander.start();
        load.ratePerSecond *= 10;
        await sleep(3000);
        load.ratePerSecond /= 10;
        await bystander.stop();
        return undefined;
      },
      moreFacts({ served, beginMs, endMs }) {
        const offered = served.filter(({ sentAtMs }) => sentAtMs >= beginMs && sentAtMs < endMs).length;
        const others = bystander.served;
        return [
          fact("offered meanwhile, of 1000/s", "≥ 2700", `${offered}`, offered >= 2700),
          atMost(`refused of another key's ${others.length}`, 0, others.filter(({ status }) => status !== 200).length),
        ];
      },
    });
  },
};

/** The number of clients that connect at once, and how often they do. */
const newClients = 300;
const times = 3;

const everyone: Fault = {
  number: 20,
  name: "everyone reconnects at once",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    const urls = system.gateways.map(({ url }) => `${url}/under-fault`);
    const statuses: Record<number, number> = {};
    let connectedAfterMs = 0;
    return observe(stack, {
      system,
      decides: "either",
      recoversWithinMs: 2000,
      async inject(load) {
        for (let i = 0; i < times; i++) {
          await system.killControlPlane();
          load.reconnect();
          await redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
          const crowd = askAtOnce(urls, newClients, { headers: { "x-key": `crowd-${i}` } });
          await system.startControlPlane();
          const startedMs = performance.now();
          for (const [status, count] of Object.entries(await crowd)) {
            statuses[Number(status)] = (statuses[Number(status)] ?? 0) + count;
          }
          await system.untilConnected(10_000);
          connectedAfterMs = Math.max(connectedAfterMs, performance.now() - startedMs);
        }
        return undefined;
      },
      moreFacts: () => [
        fact(
          `statuses of ${times} × ${newClients} new clients at once`,
          "200, 429",
          Object.keys(statuses).join(", "),
          Object.keys(statuses).join() === "200,429",
        ),
        // Gateways try again after pauses of up to 2 s.
        atMost("until all gateways are back at the control plane", 4000, connectedAfterMs, " ms"),
      ],
    });
  },
};

export const faults = [hotKey, everyone];
