// /healthz: the process runs. /readyz: the process can do its work. /metrics: how it does its work.

import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { addGauge } from "../plugins/metrics.ts";
import { answers, object } from "../schemas/responses.ts";

const tags = ["operation"];
const health = {
  config: { access: "public", limited: false },
  schema: {
    tags,
    summary: "Ask whether the process runs",
    response: answers({ 200: object({ status: { type: "string", enum: ["ok"] } }) }),
  },
} as const;

const readiness = {
  config: { access: "public", limited: false, refuses: ["not-ready"] },
  schema: {
    tags,
    summary: "Ask whether the process can do its work",
    description:
      "503 says in its detail why not. Redis that is away, a disk that takes no changes and gateways that are behind are reported in the answer, and are no reason for 503.",
    response: answers({ 200: "Readiness" }),
  },
} as const;

const metrics = {
  config: { access: "public" },
  schema: {
    tags,
    summary: "Read the metrics, for Prometheus",
    response: answers({
      200: { description: "Prometheus' text format.", content: { "text/plain": { schema: { type: "string" } } } },
    }),
  },
} as const;

export default async function healthRoutes(app: FastifyInstance): Promise<void> {
  addGauge(app.metrics, "sluice_control_database_writable", "Whether changes can be stored.", () =>
    app.storageHealth.state === "ok" ? 1 : 0,
  );

  app.get("/metrics", metrics, async (_request, reply) => {
    const { registry } = app.metrics;
    return reply.type(registry.contentType).send(await registry.metrics());
  });

  app.get("/healthz", health, async () => ({ status: "ok" }));

  app.get("/readyz", readiness, async () => {
    const { unready, ...rest } = await app.readiness();
    if (unready.length > 0) throw new ApiError("not-ready", unready.join(" "));
    return { status: "ok", ...rest };
  });
}
