// One gateway is cut off from Redis and from the control plane, but not from its clients.

import { setTimeout as sleep } from "node:timers/promises";
import { ask } from "../fixtures/clients/requests.ts";
import { fact } from "../fixtures/measures/fact.ts";
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
        await namespace.drop(redis.port, Number(new URL(system.controlUrl).port));
        await sleep(2000);
        // The gateway that is cut off does not receive this policy before it is back.
        const limits = [{ algorithm: "fixed-window", quota: 5, window: "366d" }];
        await system.api("PUT", "/apps/default/policies/unheard", { match: { paths: ["/unheard"] }, limits });
        await sleep(2000);
        await namespace.pass();
        return undefined;
      },
      async moreFacts() {
        const reported: (string | undefined)[] = [];
        for (const { url } of system.gateways)
          reported.push((await ask(`${url}/unheard`)).headers["x-ratelimit-limit"]);
        return [
          fact("limit told by a policy that was put meanwhile", "5, 5", reported.join(", "), reported.join() === "5,5"),
        ];
      },
    });
  },
};

export const faults = [partitioned];
