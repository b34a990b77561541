// Remembers when each token was last used, and stores it now and then: a request must not wait for that.

import fp from "fastify-plugin";
import { storeUses } from "../storage/callers.ts";

const everyMs = 60_000;

declare module "fastify" {
  interface FastifyInstance {
    /** @param id of the token */
    noteTokenUse(id: string): void;
    /** Stores what was noted since the last time. */
    storeTokenUses(): Promise<void>;
  }
}

export default fp<{ now: () => number }>(
  async (app, { now }) => {
    let uses = new Map<string, number>();
    const store = async () => {
      if (uses.size === 0 || app.storageHealth.state !== "ok") return;
      const stored = uses;
      uses = new Map();
      try {
        await storeUses(app.database, stored);
      } catch (error) {
        // They are stored with the next ones.
        for (const [id, atMs] of stored) if (!uses.has(id)) uses.set(id, atMs);
        app.log.warn({ err: error }, "cannot store when tokens were last used; trying again");
      }
    };
    app.decorate("noteTokenUse", (id: string) => void uses.set(id, now()));
    app.decorate("storeTokenUses", store);
    const timer = setInterval(() => void store(), everyMs);
    timer.unref();
    app.addHook("onClose", async () => {
      clearInterval(timer);
      await store();
    });
  },
  { name: "token-uses", dependencies: ["database"] },
);
