// /healthz: the process runs. /readyz: the process can do its work. /metrics: how it does its work.

import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { addGauge } from "../plugins/metrics.ts";
import { alarmsOf } from "../push/alarms.ts";
import { probeDatabase } from "../storage/database.ts";

const open = { schema: { hide: true }, config: { access: "public", limited: false } } as const;

export default async function healthRoutes(app: FastifyInstance): Promise<void> {
  addGauge(app.metrics, "sluice_control_database_writable", "Whether changes can be stored.", () =>
    app.storageHealth.state === "ok" ? 1 : 0,
  );

  app.get("/metrics", { schema: { hide: true }, config: { access: "public" } }, async (_request, reply) => {
    const { registry } = app.metrics;
    return reply.type(registry.contentType).send(await registry.metrics());
  });

  app.get("/healthz", open, async () => ({ status: "ok" }));

  app.get("/readyz", open, async (request) => {
    try {
      await probeDatabase(app.database);
    } catch (error) {
      request.log.error({ err: error }, "the database does not answer");
      throw new ApiError("not-ready", "The database does not answer.");
    }
    // Without Redis, or with a disk that takes no changes, the control plane still serves and pushes. Both are reported, but
    // are no reason to take it out of service.
    const redis = app.redis === undefined ? "not-configured" : app.redis.link.health.state;
    // Gateways that do not have the newest state are not a fault of this control plane: another one could not help them
    // either.
    const alarms = alarmsOf(app.fleet.list(), app.publisher.current, app.now());
    const storage = app.storageHealth.state;
    return { status: "ok", storage, redis, gateways: app.fleet.connectedCount, alarms };
  });
}
