// The database, opened elsewhere, for routes and other plugins; closed after the last request. While it takes no changes
// (a full disk), that is in the log once, and tried again until it does.

import fp from "fastify-plugin";
import { type Database, probeWriting } from "../storage/database.ts";
import { DatabaseUnwritable } from "../storage/sqlite-errors.ts";
import type { StorageHealth } from "../storage/storage-health.ts";

const retryMs = 1_000;

declare module "fastify" {
  interface FastifyInstance {
    readonly database: Database;
    readonly storageHealth: StorageHealth;
  }
}

const troubles = {
  full: "the disk of the database is full: what is stored is served and pushed, and changes are refused until there is room",
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
        await probeWriting(database);
      } catch (error) {
        // The health has heard of what the disk has to do with.
        if (!(error instanceof DatabaseUnwritable))
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
      retry = setInterval(tryAgain, retryMs).unref();
    });
    // Known from the start, and not from the first change that somebody loses.
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
