// Counts and times what the database does.

import fp from "fastify-plugin";
import { Counter, Histogram } from "prom-client";
import { DatabaseBusy, DatabaseUnreachable, DatabaseUnwritable } from "../storage/engines/database-errors.ts";
import type { StorageObserver } from "../storage/engines/storage-observer.ts";

declare module "fastify" {
  interface FastifyInstance {
    readonly storageObserver: StorageObserver;
  }
}

const errorKinds = ["busy", "full", "unreachable", "unwritable", "other"] as const;

/** From a read in memory to the longest time that a statement may take. */
const buckets = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 10];

export default fp<{ observer: StorageObserver }>(
  async (app, { observer }) => {
    app.decorate("storageObserver", observer);
    const registers = [app.metrics.registry];
    const statements = new Histogram({
      name: "sluice_control_database_statement_duration_seconds",
      help: "Statements of SQL, by what they do.",
      labelNames: ["kind"] as const,
      buckets,
      registers,
    });
    const transactions = new Histogram({
      name: "sluice_control_database_transaction_duration_seconds",
      help: "Transactions, from their beginning to their end.",
      labelNames: ["kind", "outcome"] as const,
      buckets,
      registers,
    });
    const waits = new Histogram({
      name: "sluice_control_database_wait_duration_seconds",
      help: "Waits for a connection of the pool, or for the turn to write.",
      buckets,
      registers,
    });
    const errors = new Counter({
      name: "sluice_control_database_errors_total",
      help: "What the database did not do, by the reason.",
      labelNames: ["kind"] as const,
      registers,
    });
    for (const kind of errorKinds) errors.inc({ kind }, 0);
    observer.add({
      statement: ({ kind, begunAtMs, endedAtMs }) => statements.observe({ kind }, (endedAtMs - begunAtMs) / 1_000),
      transaction:
        () =>
        ({ kind, begunAtMs, endedAtMs, error }) => {
          const outcome = error === undefined ? "committed" : "rolled-back";
          transactions.observe({ kind, outcome }, (endedAtMs - begunAtMs) / 1_000);
        },
      waited: (durationMs) => waits.observe(durationMs / 1_000),
      failed: (error) => errors.inc({ kind: kindOf(error) }),
    });
  },
  { name: "storage-metrics", dependencies: ["metrics"] },
);

function kindOf(error: unknown): (typeof errorKinds)[number] {
  if (error instanceof DatabaseBusy) return "busy";
  if (error instanceof DatabaseUnreachable) return "unreachable";
  return error instanceof DatabaseUnwritable ? error.fault : "other";
}
