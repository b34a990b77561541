// Sends spans by OTLP over HTTP, in JSON: one for each request, each transaction of the database and each push. Loaded only if
// traces are configured. The exporter itself reads OTEL_EXPORTER_OTLP_* (endpoint, headers, time-out, certificates).

import { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingHttpHeaders } from "node:http";
import {
  type Attributes,
  type Context,
  DiagLogLevel,
  defaultTextMapGetter,
  diag,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import manifest from "../../package.json" with { type: "json" };
import type { TracingOptions } from "../tracing-options.ts";
import type { AnsweredRequest, RequestSpan, Tracing } from "./tracing.ts";

const sayAgainAfterMs = 60_000;
/** Longer would delay the stop of the control plane for traces. */
const maxFlushMs = 2_000;

export interface TracingDependencies {
  /** postgresql, mysql or sqlite. */
  readonly databaseSystem: string;
  /** Called when spans cannot be sent: at most once a minute. */
  onError(message: string): void;
}

interface Recorded {
  readonly name: string;
  readonly kind: SpanKind;
  readonly parent: Context;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly attributes: Attributes;
  readonly error: unknown;
}

export function startTracing(options: TracingOptions, { databaseSystem, onError }: TracingDependencies): Tracing {
  reportFaults(onError);
  const service = resourceFromAttributes({
    "service.name": "sluice-control-plane",
    "service.version": manifest.version,
  });
  const resource = defaultResource()
    .merge(service)
    .merge(detectResources({ detectors: [envDetector] }));
  const provider = new TracerProvider({
    resource,
    sampler: samplerOf(options),
    spanProcessors: [
      new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), scheduledDelayMillis: options.sendEveryMs }),
    ],
  });
  const tracer = provider.getTracer("sluice-control-plane", manifest.version);
  const propagator = new W3CTraceContextPropagator();
  const running = new AsyncLocalStorage<Context>();

  function record({ name, kind, parent, fromMs, untilMs, attributes, error }: Recorded): void {
    const span = tracer.startSpan(name, { kind, startTime: epochMs(fromMs), attributes }, parent);
    // The message of an error may have values; its name is enough to find it in the log.
    if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: nameOf(error) });
    span.end(epochMs(untilMs));
  }

  function recordOfDatabase(
    name: string,
    fromMs: number,
    untilMs: number,
    error: unknown,
    more: Attributes = {},
  ): void {
    const parent = running.getStore();
    // What runs by itself every second, such as the look for changes of other control planes, is no part of any trace.
    if (parent === undefined) return;
    const attributes = { "db.system.name": databaseSystem, ...more };
    record({ name, kind: SpanKind.CLIENT, parent, fromMs, untilMs, attributes, error });
  }

  return {
    request: (headers: IncomingHttpHeaders): RequestSpan => {
      const parent = propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
      const span = tracer.startSpan("HTTP", { kind: SpanKind.SERVER }, parent);
      const context = trace.setSpan(parent, span);
      return {
        run: (body) => running.run(context, body),
        end: ({ method, route, status, id, who }: AnsweredRequest) => {
          span.updateName(`${method} ${route}`);
          span.setAttributes({
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "sluice.request_id": id,
            ...(who === undefined ? {} : { "user.name": who }),
          });
          if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },
    storage: {
      statement: ({ kind, begunAtMs, endedAtMs, error, inTransaction }) => {
        if (!inTransaction) recordOfDatabase(`database ${kind}`, begunAtMs, endedAtMs, error);
      },
      transaction:
        () =>
        ({ kind, wantedAtMs, begunAtMs, endedAtMs, error }) => {
          const waitedMs = { "sluice.waited_ms": begunAtMs - wantedAtMs };
          recordOfDatabase(`database ${kind} transaction`, wantedAtMs, endedAtMs, error, waitedMs);
        },
      waited: () => {},
      failed: () => {},
    },
    current: () => running.getStore(),
    pushed: ({ revision, bytes, gateways, storedAtMs, settledAtMs, origin }) =>
      record({
        name: "push",
        kind: SpanKind.PRODUCER,
        parent: (origin as Context | undefined) ?? ROOT_CONTEXT,
        fromMs: storedAtMs,
        untilMs: settledAtMs,
        attributes: { "sluice.revision": revision, "sluice.snapshot_bytes": bytes, "sluice.gateways": gateways },
        error: undefined,
      }),
    stop: async () => {
      let timer: NodeJS.Timeout | undefined;
      const patience = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, maxFlushMs);
      });
      // What cannot be sent was reported.
      await Promise.race([provider.shutdown().catch(() => undefined), patience]);
      clearTimeout(timer);
    },
  };
}

/** @param ms by `performance.now()` */
function epochMs(ms: number): number {
  return performance.timeOrigin + ms;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : "unknown";
}

function samplerOf({ sampler, ratio }: TracingOptions): Sampler {
  const [, isByParent, name] = /^(parentbased_)?(.*)$/.exec(sampler) ?? [];
  const root =
    name === "always_on"
      ? new AlwaysOnSampler()
      : name === "always_off"
        ? new AlwaysOffSampler()
        : new TraceIdRatioBasedSampler(ratio);
  return isByParent === undefined ? root : new ParentBasedSampler({ root });
}

function reportFaults(onError: (message: string) => void): void {
  let saidAtMs = Number.NEGATIVE_INFINITY;
  const say = (message: string) => {
    if (performance.now() - saidAtMs < sayAgainAfterMs) return;
    saidAtMs = performance.now();
    onError(message);
  };
  const nothing = () => {};
  diag.setLogger({ error: say, warn: say, info: nothing, debug: nothing, verbose: nothing }, DiagLogLevel.WARN);
}
