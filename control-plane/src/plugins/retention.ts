// Deletes history and audit entries that are too old, or exceed their app's share, and sessions that have ended. It deletes a few at a time between
// requests. What fails is tried again in the next round.

import fp from "fastify-plugin";
import type { Retention, SessionLimits } from "../configuration.ts";
import { pruneAudit } from "../storage/audit.ts";
import { pruneConsumers } from "../storage/consumer-changes.ts";
import { pruneHistory } from "../storage/history-retention.ts";
import { pruneSessions } from "../storage/sessions.ts";

const everyMs = 10_000;
/** Lets requests run in between. */
const pauseMs = 20;

declare module "fastify" {
  interface FastifyInstance {
    /** Runs one whole round now. */
    deleteOutdated(): Promise<void>;
  }
}

export default fp<{ now: () => number; retention: Retention; sessions: SessionLimits }>(
  async (app, { now, retention, sessions }) => {
    let round: Promise<void> | undefined;
    let stopped = false;

    async function work(): Promise<void> {
      const steps = [
        () => pruneHistory(app.database, retention.history, now()),
        () => pruneAudit(app.database, retention.auditDays, now()),
        () => pruneConsumers(app.database, now()),
        () => pruneSessions(app.database, sessions.idleMs, now()),
      ];
      for (const step of steps) {
        while (!stopped && (await step())) await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }

    const deleteOutdated = () => {
      round ??= work().finally(() => {
        round = undefined;
      });
      return round;
    };
    app.decorate("deleteOutdated", deleteOutdated);
    const timer = setInterval(() => {
      deleteOutdated().catch((error) => app.log.error({ err: error }, "cannot delete what is outdated; trying again"));
    }, everyMs);
    timer.unref();
    app.addHook("onClose", async () => {
      stopped = true;
      clearInterval(timer);
      await round?.catch(() => undefined);
    });
  },
  { name: "retention", dependencies: ["database"] },
);
