// The metrics for Prometheus. Each Fastify app has its own registry, so that two control planes in one process do not add up.

import fp from "fastify-plugin";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { type Cut, cuts } from "../http/connections.ts";
import { type Alarm, alarmNames } from "../push/alarms.ts";
import { routeOf } from "./request-log.ts";

export interface Metrics {
  readonly registry: Registry;
  readonly snapshotsSent: Counter;
  readonly snapshotBytesSent: Counter;
  readonly deltasSent: Counter;
  readonly deltaBytesSent: Counter;
  readonly snapshotsRefused: Counter;
  readonly consumerBytesSent: Counter;
  /** Seconds from a change to its snapshot. */
  readonly snapshotBuilds: Histogram;
  /** Seconds from a change until every connected gateway has applied or refused it. */
  readonly pushes: Histogram;
}

declare module "fastify" {
  interface FastifyInstance {
    readonly metrics: Metrics;
  }
}

export default fp(
  async (app) => {
    const registry = new Registry();
    const registers = [registry];
    const requests = new Counter({
      name: "sluice_control_http_requests_total",
      help: "HTTP requests answered, by class of status.",
      labelNames: ["class"] as const,
      registers,
    });
    const durations = new Histogram({
      name: "sluice_control_http_request_duration_seconds",
      help: "HTTP requests answered, by method, route and class of status.",
      labelNames: ["method", "route", "class"] as const,
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60],
      registers,
    });
    app.addHook("onResponse", async (request, reply) => {
      const statusClass = `${Math.floor(reply.statusCode / 100)}xx`;
      const route = routeOf(request);
      // Whoever asks for what does not exist makes no series by it.
      const method = route === "unknown" || statusClass === "4xx" ? knownMethod(request.method) : request.method;
      requests.inc({ class: statusClass });
      durations.observe({ method, route, class: statusClass }, reply.elapsedTime / 1_000);
    });
    const connectionsCut = new Counter({
      name: "sluice_control_connections_cut_total",
      help: "Connections that were closed at once, by what there was too much of.",
      labelNames: ["reason"] as const,
      registers,
    });
    for (const reason of cuts) connectionsCut.inc({ reason }, 0);
    app.server.on("cut", (reason: Cut) => connectionsCut.inc({ reason }));
    app.decorate("metrics", {
      registry,
      snapshotsSent: new Counter({
        name: "sluice_control_snapshots_sent_total",
        help: "Snapshots sent to gateways.",
        registers,
      }),
      snapshotBytesSent: new Counter({
        name: "sluice_control_snapshot_bytes_sent_total",
        help: "Bytes of the snapshots sent to gateways.",
        registers,
      }),
      snapshotBuilds: new Histogram({
        name: "sluice_control_snapshot_build_duration_seconds",
        help: "From a stored change to its snapshot, ready to be sent.",
        buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
        registers,
      }),
      pushes: new Histogram({
        name: "sluice_control_push_duration_seconds",
        help: "From a stored change until every connected gateway has applied or refused it.",
        buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
        registers,
      }),
      deltasSent: new Counter({
        name: "sluice_control_deltas_sent_total",
        help: "Deltas sent to gateways: what has changed since the revision that they hold.",
        registers,
      }),
      deltaBytesSent: new Counter({
        name: "sluice_control_delta_bytes_sent_total",
        help: "Bytes of the deltas sent to gateways.",
        registers,
      }),
      consumerBytesSent: new Counter({
        name: "sluice_control_consumer_bytes_sent_total",
        help: "Bytes of the consumers sent to gateways.",
        registers,
      }),
      snapshotsRefused: new Counter({
        name: "sluice_control_snapshots_refused_total",
        help: "Snapshots that a gateway refused.",
        registers,
      }),
    });
  },
  { name: "metrics" },
);

const knownMethods = new Set(["GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"]);

function knownMethod(method: string): string {
  return knownMethods.has(method) ? method : "other";
}

/** Adds a gauge whose value is read when it is scraped. */
export function addGauge(
  { registry }: Metrics,
  name: string,
  help: string,
  read: () => number | Promise<number>,
): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      this.set(await read());
    },
  });
}

/** Adds a gauge with the number of gateways that have each alarm: one line for each alarm, 0 if no gateway has it. */
export function addAlarmGauge({ registry }: Metrics, read: () => readonly Alarm[]): void {
  new Gauge({
    name: "sluice_control_gateway_alarms",
    help: "Connected gateways with an alarm, by what is wrong.",
    labelNames: ["alarm"] as const,
    registers: [registry],
    collect() {
      for (const alarm of alarmNames) this.set({ alarm }, 0);
      for (const { alarm, gateways } of read()) this.set({ alarm }, gateways);
    },
  });
}
