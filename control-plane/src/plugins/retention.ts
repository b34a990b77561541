// Deletes what nobody is to keep for ever: history and audit entries that are old, or more than their app's share. A little at
// a time, beside requests; what could not be deleted now is tried again at the next round.

import fp from "fastify-plugin";
import type { Retention } from "../configuration.ts";
import { pruneAudit } from "../storage/audit.ts";
import { pruneHistory } from "../storage/history-retention.ts";

const everyMs = 10_000;
/** So that requests come in between. */
const pauseMs = 20;

declare module "fastify" {
  interface FastifyInstance {
    /** One whole round, now. */
    deleteOutdated(): Promise<void>;
  }
}

export default fp<{ now: () => number; retention: Retention }>(
  async (app, { now, retention }) => {
    let round: Promise<void> | undefined;
    let stopped = false;

    async function work(): Promise<void> {
      const steps = [
        () => pruneHistory(app.database, retention.history, now()),
        () => pruneAudit(app.database, retention.auditDays, now()),
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
