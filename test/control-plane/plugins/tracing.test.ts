// Traces, as a collector of OpenTelemetry receives them.

import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { ConfigurationError, readConfiguration } from "../../../control-plane/src/configuration.ts";
import { startProcess } from "../../fixtures/servers/control-plane-process.ts";
import { adminToken, onePerSecond, send } from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";

interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly durationMs: number;
  readonly attributes: Record<string, unknown>;
  readonly isError: boolean;
}

interface Collector {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  readonly headers: Record<string, unknown>[];
  readonly resource: Record<string, unknown>;
  /** @returns the first span for which this holds, once it came */
  next(what: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan>;
}

type Pairs = { key: string; value: Record<string, unknown> }[];

const recordOf = (pairs: Pairs = []) =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0]]));

async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const headers: Record<string, unknown>[] = [];
  const resource: Record<string, unknown> = {};
  const server = createServer(async (request, response) => {
    headers.push({ url: request.url, ...request.headers });
    // biome-ignore lint/suspicious/noExplicitAny: what it holds is what each test asserts
    const { resourceSpans } = (await json(request)) as any;
    for (const ofResource of resourceSpans) {
      Object.assign(resource, recordOf(ofResource.resource.attributes));
      for (const span of ofResource.scopeSpans.flatMap((scope: { spans: unknown[] }) => scope.spans)) {
        const nanoseconds = Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano));
        spans.push({
          ...span,
          durationMs: nanoseconds / 1e6,
          attributes: recordOf(span.attributes),
          isError: span.status?.code === 2,
        });
      }
    }
    response.setHeader("content-type", "application/json").end("{}");
  }).listen(0, "127.0.0.1");
  onFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const next = (what: (span: ReceivedSpan) => boolean) =>
    untilPasses(() => {
      const found = spans.find(what);
      if (found === undefined) throw new Error(`no such span among ${spans.map(({ name }) => name).join(", ")}`);
      return found;
    });
  return { url: `http://127.0.0.1:${port}`, spans, headers, resource, next };
}

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";

describe("traces", () => {
  it("have a span for each request, its transactions and its push, within the trace of the client", async () => {
    const collector = await startCollector();
    const url = await startProcess({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: "api-key=key-of-the-collector",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
      OTEL_BSP_SCHEDULE_DELAY: "100",
    });
    const gateway = await connectGateway({ url }, "edge-1");
    gateway.apply(await gateway.next("snapshot"));
    const headers = { traceparent: `00-${traceId}-${parentId}-01`, "x-request-id": "deploy-1" };
    const path = "/apps/default/policies/secret-name?wait=30s";
    const putting = send(url, "PUT", path, { body: onePerSecond, headers });
    gateway.apply(await gateway.next("snapshot"));
    expect((await putting).status).toBe(201);

    const request = await collector.next(({ name }) => name === "PUT /api/v1/apps/:app/policies/:policy");
    expect(request).toMatchObject({ traceId, parentSpanId: parentId, isError: false });
    expect(request.attributes).toMatchObject({
      "http.request.method": "PUT",
      "http.response.status_code": 201,
      "sluice.request_id": "deploy-1",
      "user.name": "environment",
    });
    const write = await collector.next(({ name }) => name === "database write transaction");
    expect(write).toMatchObject({ traceId, parentSpanId: request.spanId, isError: false });
    expect(write.attributes["db.system.name"]).toBe("sqlite");
    const signIn = await collector.next(({ name, traceId: one }) => name === "database select" && one === traceId);
    expect(signIn.parentSpanId).toBe(request.spanId);
    const push = await collector.next(({ name, traceId: one }) => name === "push" && one === traceId);
    expect(push.parentSpanId).toBe(request.spanId);
    expect(push.attributes).toMatchObject({ "sluice.gateways": 1 });
    expect(push.durationMs).toBeGreaterThan(0);
    expect(push.durationMs).toBeLessThanOrEqual(request.durationMs);
    expect(collector.resource).toMatchObject({
      "service.name": "sluice-control-plane",
      "deployment.environment.name": "test",
    });
    expect(collector.headers[0]).toMatchObject({ url: "/v1/traces", "api-key": "key-of-the-collector" });
    const sent = JSON.stringify(collector.spans);
    for (const secret of [adminToken, "secret-name"]) expect(sent).not.toContain(secret);
  });

  it("begin one of their own if the client has none, or a malformed one, and leave out probes", async () => {
    const collector = await startCollector();
    const url = await startProcess({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: "100" });
    for (const path of ["healthz", "readyz", "metrics"]) await send(url, "GET", path, {});
    await send(url, "GET", "/apps", { headers: { traceparent: "00-zz-yy-01" } });
    await send(url, "GET", "/nowhere", { token: "wrong-token-0123456789" });
    const missing = await collector.next(({ name }) => name === "GET unknown");
    const found = await collector.next(({ name }) => name === "GET /api/v1/apps");
    expect(missing.attributes["http.response.status_code"]).toBe(404);
    expect(missing.parentSpanId ?? "").toBe("");
    expect(found.traceId).not.toBe(missing.traceId);
    expect(collector.spans.filter(({ name }) => /healthz|readyz|metrics/.test(name))).toEqual([]);
  });

  it("delay nothing when nobody takes them", async () => {
    const url = await startProcess({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
      OTEL_BSP_SCHEDULE_DELAY: "10",
    });
    for (let i = 0; i < 20; i++) expect((await send(url, "GET", "/apps", {})).status).toBe(200);
  });
});

describe("the variables of OpenTelemetry", () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };

  it("turn traces on and off", () => {
    const tracing = (more: Record<string, string>) => readConfiguration(more).tracing;
    expect(tracing({})).toBeUndefined();
    expect(tracing(endpoint)).toEqual({ sampler: "parentbased_always_on", ratio: 1, sendEveryMs: 5_000 });
    expect(tracing({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:4318/v1/traces" })).toBeDefined();
    expect(tracing({ ...endpoint, OTEL_SDK_DISABLED: "true" })).toBeUndefined();
    expect(tracing({ ...endpoint, OTEL_TRACES_EXPORTER: "none" })).toBeUndefined();
    const some = { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.1" };
    expect(tracing({ ...endpoint, ...some })).toMatchObject({ sampler: "traceidratio", ratio: 0.1 });
  });

  it.each([
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/json"],
    [{ OTEL_TRACES_SAMPLER: "sometimes" }, "OTEL_TRACES_SAMPLER: expected one of always_on"],
    [{ OTEL_TRACES_SAMPLER_ARG: "2" }, 'OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, got "2"'],
  ])("are refused if they say what there is not: %j", (wrong, message) => {
    expect(() => readConfiguration({ ...endpoint, ...wrong })).toThrow(ConfigurationError);
    expect(() => readConfiguration({ ...endpoint, ...wrong })).toThrow(message);
  });
});
