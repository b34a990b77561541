// /healthz: the process runs. /readyz: the process can do its work.

import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { addGauge } from "../plugins/metrics.ts";
import { alarmsOf } from "../push/alarms.ts";
import { answers, object } from "../schemas/responses.ts";
import { probeDatabase } from "../storage/database.ts";

const tags = ["operation"];
const health = {
  config: { access: "public" },
  schema: {
    tags,
    summary: "Ask whether the process runs",
    response: answers({ 200: object({ status: { type: "string", enum: ["ok"] } }) }),
  },
} as const;

const readiness = {
  config: { access: "public", refuses: ["not-ready"] },
  schema: {
    tags,
    summary: "Ask whether the process can do its work",
    description:
      "503 means that the database does not answer. Redis that is away, a disk that takes no changes and gateways that are behind are reported in the answer.",
    response: answers({ 200: "Readiness" }),
  },
} as const;

export default async function healthRoutes(app: FastifyInstance): Promise<void> {
  addGauge(app.metrics, "sluice_control_database_writable", "Whether changes can be stored.", () =>
    app.storageHealth.state === "ok" ? 1 : 0,
  );

  app.get("/healthz", health, async () => ({ status: "ok" }));

  app.get("/readyz", readiness, async (request) => {
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
