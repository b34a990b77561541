// Traces, if they are configured: OpenTelemetry is loaded only then.

import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import type { StorageObserver } from "../storage/engines/storage-observer.ts";
import type { RequestSpan, Tracing } from "../tracing/tracing.ts";
import type { TracingOptions } from "../tracing-options.ts";
import { isProbe, routeOf } from "./request-log.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** Undefined if traces are not configured. */
    readonly tracing: Tracing | undefined;
  }
  interface FastifyRequest {
    span: RequestSpan | undefined;
  }
}

interface TracingPluginOptions {
  readonly options: TracingOptions | undefined;
  readonly databaseKind: "sqlite" | "mysql" | "postgres";
  readonly observer: StorageObserver;
}

export default fp<TracingPluginOptions>(
  async (app, { options, databaseKind, observer }) => {
    if (options === undefined) {
      app.decorate("tracing", undefined);
      return;
    }
    const { startTracing } = await import("../tracing/otlp.ts");
    const tracing = startTracing(options, {
      databaseSystem: databaseKind === "postgres" ? "postgresql" : databaseKind,
      onError: (message) => app.log.warn({ error: message }, "cannot send traces; trying again"),
    });
    app.decorate("tracing", tracing);
    app.decorateRequest("span", undefined);
    observer.add(tracing.storage);
    app.addHook("onRequest", (request, _reply, done) => {
      if (isTraced(request)) request.span = tracing.request(request.headers);
      if (request.span === undefined) done();
      else request.span.run(done);
    });
    // A body arrives outside of what the first hook began.
    app.addHook("preValidation", (request, _reply, done) => {
      if (request.span === undefined) done();
      else request.span.run(done);
    });
    app.addHook("onResponse", async (request, reply) => {
      request.span?.end({
        method: request.method,
        route: routeOf(request),
        status: reply.statusCode,
        id: request.id,
        who: request.caller?.who,
      });
    });
    app.addHook("onClose", () => tracing.stop());
  },
  { name: "tracing" },
);

/** Probes come all the time, and a push socket lives as long as its gateway. */
function isTraced(request: FastifyRequest): boolean {
  return !isProbe(request) && request.routeOptions.config?.access !== "gateway";
}
