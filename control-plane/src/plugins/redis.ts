// Redis, if it is configured: its health and its counters. Its client is loaded only then. The control plane starts whether Redis answers or not.

import fp from "fastify-plugin";
import type { RedisChannel } from "../redis/redis-channel.ts";
import type { RedisCounters } from "../redis/redis-counters.ts";
import type { RedisLink } from "../redis/redis-link.ts";
import { readRedisScripts } from "../redis/redis-scripts.ts";
import type { RedisDeployment } from "../redis/redis-url.ts";
import { addGauge } from "./metrics.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** Undefined if SLUICE_REDIS_URL is not set. */
    readonly redis:
      | { readonly link: RedisLink; readonly counters: RedisCounters; readonly changes: RedisChannel }
      | undefined;
  }
}

export default fp<{ now: () => number; deployment: RedisDeployment | undefined }>(
  async (app, { now, deployment }) => {
    if (deployment === undefined) {
      app.decorate("redis", undefined);
      return;
    }
    const [{ RedisChannel }, { RedisCounters }, { RedisLink }] = await Promise.all([
      import("../redis/redis-channel.ts"),
      import("../redis/redis-counters.ts"),
      import("../redis/redis-link.ts"),
    ]);
    const scripts = readRedisScripts();
    const link = new RedisLink({
      deployment,
      scripts,
      now,
      onHealth: ({ state, error }, former) => {
        if (state === "failing")
          app.log.warn({ error }, "Redis does not do what the control plane needs; trying again");
        // A warning reported the beginning of the failure, so a warning reports its end.
        else if (former === "failing") app.log.warn("Redis does what the control plane needs again");
        else app.log.info("Redis does what the control plane needs");
      },
    });
    const changes = new RedisChannel({
      deployment,
      link,
      onRefused: (error) =>
        app.log.warn(
          { error },
          "Redis does not let control planes tell each other of changes, so they notice them up to 250 ms later: docs/cluster.md has the rights",
        ),
    });
    app.decorate("redis", { link, counters: new RedisCounters(link, scripts), changes });
    app.addHook("onClose", async () => link.stop());
    addGauge(app.metrics, "sluice_control_redis_up", "1 while Redis does what the control plane needs.", () =>
      link.health.state === "ok" ? 1 : 0,
    );
  },
  { name: "redis", dependencies: ["metrics"] },
);
