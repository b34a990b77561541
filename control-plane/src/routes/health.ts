// /healthz: the process runs. /readyz: the process can do its work. /metrics: how it does its work.

import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { addGauge } from "../plugins/metrics.ts";

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

  app.get("/readyz", open, async () => {
    const { unready, ...rest } = await app.readiness();
    if (unready.length > 0) throw new ApiError("not-ready", unready.join(" "));
    return { status: "ok", ...rest };
  });
}
