// Remembers when each token was last used, and stores it now and then: a request must not wait for that.

import fp from "fastify-plugin";
import { storeUses } from "../storage/callers.ts";

const everyMs = 60_000;
/** Of a minute. Whoever makes tokens, uses them once and deletes them must not fill the memory, nor the time of the database. */
const mostUses = 10_000;

declare module "fastify" {
  interface FastifyInstance {
    /** @param id of the token */
    noteTokenUse(id: string): void;
    /** The token was deleted. @param id of the token */
    forgetTokenUse(id: string): void;
    /** Stores what was noted since the last time. */
    storeTokenUses(): Promise<void>;
  }
}

export default fp<{ now: () => number }>(
  async (app, { now }) => {
    const uses = new Map<string, number>();
    let storing: Promise<void> | undefined;
    const store = async () => {
      if (uses.size === 0 || app.storageHealth.state !== "ok") return;
      try {
        await storeUses(app.database, uses);
      } catch (error) {
        // They are stored with the next ones.
        app.log.warn({ err: error }, "cannot store when tokens were last used; trying again");
      }
    };
    const storeOnce = () => {
      storing ??= store().finally(() => {
        storing = undefined;
      });
      return storing;
    };
    app.decorate("noteTokenUse", (id: string) => {
      // The last one comes last: if there are too many, the one that was used the longest ago goes.
      uses.delete(id);
      uses.set(id, now());
      if (uses.size <= mostUses) return;
      const [oldest = ""] = uses.keys();
      uses.delete(oldest);
    });
    app.decorate("forgetTokenUse", (id: string) => void uses.delete(id));
    app.decorate("storeTokenUses", storeOnce);
    const timer = setInterval(() => void storeOnce(), everyMs);
    timer.unref();
    app.addHook("onClose", async () => {
      clearInterval(timer);
      await storeOnce();
    });
  },
  { name: "token-uses", dependencies: ["database"] },
);
