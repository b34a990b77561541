// One gateway is cut off from Redis and from the control plane, not from its clients.

import { setTimeout as sleep } from "node:timers/promises";
import type { Fault } from "./fault.ts";
import { Namespace } from "./namespace.ts";
import { observe, startRedis, startSystem } from "./scenario.ts";

const partitioned: Fault = {
  number: 10,
  name: "one gateway partitioned",
  needsRoot: true,
  async run(stack) {
    const namespace = Namespace.create();
    stack.defer(() => namespace.remove());
    const redis = await startRedis(stack, ["--bind", "127.0.0.1", namespace.hostAddress, "--protected-mode", "no"]);
    const system = await startSystem(stack, {
      env: { SLUICE_REDIS_URL: redis.url, SLUICE_CONTROL_HOST: "0.0.0.0", SLUICE_UPSTREAM_HOST: "0.0.0.0" },
    });
    const seenFromInside = (url: string) => url.replace("127.0.0.1", namespace.hostAddress);
    await system.addGateway(namespace.command, namespace.address, {
      SLUICE_REDIS_URL: seenFromInside(redis.url),
      SLUICE_CONTROL_URL: seenFromInside(system.controlUrl),
      SLUICE_UPSTREAM: seenFromInside(system.upstreamUrl),
    });
    return observe(stack, {
      system,
      decides: "shares",
      cutOff: [1],
      recoversWithinMs: 2000,
      async inject() {
        for (const port of [redis.port, Number(new URL(system.controlUrl).port)]) namespace.drop(port);
        await sleep(4000);
        namespace.pass();
        return undefined;
      },
    });
  },
};

export const faults = [partitioned];
