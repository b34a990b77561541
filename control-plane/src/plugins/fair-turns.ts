// Requests begin in an order that is fair to their addresses, and change the database in one that is fair to who makes the changes: a flood
// delays whoever sends it.

import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import fp from "fastify-plugin";
import { FairSchedule } from "../http/fair-schedule.ts";
import type { Caller } from "../rights/caller.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";

export default fp(
  async (app) => {
    const schedule = new FairSchedule();
    app.addHook("onRequest", async ({ address, raw, routeOptions }, reply) => {
      // Gateways come all at once after an outage, and each keeps its socket.
      if (routeOptions.config?.access === "gateway") return;
      await schedule.turn(ipPrefix(address, 32, 64));
      // Nobody waits for the answer any more.
      if (raw.destroyed) reply.hijack();
    });
    // Changes take turns by who makes them, since one may hold the database for half a second.
    app.addHook("preHandler", ({ caller }, _reply, done) => {
      onBehalfOf.run(caller === undefined ? "" : ownerOfChanges(caller), done);
    });
  },
  { name: "fair-turns", dependencies: ["client-address"] },
);

/** Services of one app are one owner: whoever manages an app can make as many tokens as it likes. */
function ownerOfChanges({ member, isAdmin, roles, who }: Caller): string {
  if (member !== undefined) return `member ${member}`;
  return isAdmin ? `admin ${who}` : `apps ${[...roles.keys()].sort().join()}`;
}
