// The metrics for Prometheus. Each Fastify app has its own registry, so that two control planes in one process do not add up.

import fp from "fastify-plugin";
import { Counter, Gauge, Registry } from "prom-client";
import { type Alarm, alarmNames } from "../push/alarms.ts";

export interface Metrics {
  readonly registry: Registry;
  readonly snapshotsSent: Counter;
  readonly snapshotsRefused: Counter;
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
    app.addHook("onResponse", async (_request, reply) => {
      requests.inc({ class: `${Math.floor(reply.statusCode / 100)}xx` });
    });
    app.decorate("metrics", {
      registry,
      snapshotsSent: new Counter({
        name: "sluice_control_snapshots_sent_total",
        help: "Snapshots sent to gateways.",
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

/** Adds a gauge whose value is read when it is scraped. */
export function addGauge({ registry }: Metrics, name: string, help: string, read: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}

/** Adds a gauge with the number of gateways that have each alarm: one line for each alarm, 0 if no gateway has it. */
export function addAlarmGauge({ registry }: Metrics, read: () => readonly Alarm[]): void {
  new Gauge({
    name: "sluice_control_gateway_alarms",
    help: "Connected gateways that do not have what is stored, by what is wrong.",
    labelNames: ["alarm"] as const,
    registers: [registry],
    collect() {
      for (const alarm of alarmNames) this.set({ alarm }, 0);
      for (const { alarm, gateways } of read()) this.set({ alarm }, gateways);
    },
  });
}
