// Gives routes and other plugins the database, which is opened elsewhere, and closes it after the last request. While the
// database takes no changes (a full disk), the log says so once, and a write is tried repeatedly until one succeeds.

import fp from "fastify-plugin";
import { probeWriting } from "../storage/database.ts";
import { DatabaseUnreachable, DatabaseUnwritable } from "../storage/engines/database-errors.ts";
import type { StorageHealth } from "../storage/engines/storage-health.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";
import type { Database } from "../storage/tables.ts";

const retryMs = 1_000;

declare module "fastify" {
  interface FastifyInstance {
    readonly database: Database;
    readonly storageHealth: StorageHealth;
  }
}

const troubles = {
  full: "the disk of the database is full: what is stored is served and pushed, and changes are refused until there is room",
  unreachable: "the database does not answer: policies in force stay in force, and the API is out of service",
  unwritable: "the database cannot be written to: what is stored is served and pushed, and changes are refused",
};

export default fp<{ database: Database; health: StorageHealth }>(
  async (app, { database, health }) => {
    app.decorate("database", database);
    app.decorate("storageHealth", health);
    let retry: NodeJS.Timeout | undefined;
    let trying: Promise<void> | undefined;
    const tryAgain = () => {
      trying ??= tryWriting().finally(() => {
        trying = undefined;
      });
    };
    const tryWriting = async () => {
      try {
        await probeWriting(database, health);
      } catch (error) {
        // StorageHealth already reports errors that come from the disk or the network.
        if (!(error instanceof DatabaseUnwritable || error instanceof DatabaseUnreachable))
          app.log.warn({ err: error }, "cannot try whether changes are stored");
      }
    };
    health.onChange((state, error) => {
      clearInterval(retry);
      if (state === "ok") {
        app.log.warn("changes are stored again");
        return;
      }
      app.log.error({ err: error, storage: state }, troubles[state]);
      // Not on behalf of whose request has failed.
      retry = onBehalfOf.exit(() => setInterval(tryAgain, retryMs).unref());
    });
    // Tries once at the start, so that the state is known before somebody's first change fails.
    tryAgain();
    app.addHook("onClose", async () => {
      health.onChange(() => {});
      clearInterval(retry);
      await trying;
      await database.destroy();
    });
  },
  { name: "database" },
);
