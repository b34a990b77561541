// Requests begin in an order that is fair to their addresses, and change the database in one that is fair to who makes the changes: a flood
// delays whoever sends it.

import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { FairSchedule } from "../http/fair-schedule.ts";
import { ownerOf } from "../rights/caller.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";

export default fp(
  async (app) => {
    const schedule = new FairSchedule();
    /** The turn in which each request began. */
    const turnOf = new WeakMap<FastifyRequest, number>();
    app.addHook("onRequest", async (request, reply) => {
      // Gateways come all at once after an outage, and each keeps its socket.
      if (request.routeOptions.config?.access === "gateway") return;
      await schedule.turn(addressOf(request));
      turnOf.set(request, schedule.begun);
      // Nobody waits for the answer any more.
      if (request.raw.destroyed) reply.hijack();
    });
    // Changes take turns by who makes them, since one may hold the database for half a second.
    app.addHook("preHandler", ({ caller }, _reply, done) => {
      onBehalfOf.run(caller === undefined ? "" : ownerOf(caller), done);
    });
    // The database answers several requests at once: without turns, everybody would wait until all these answers are written.
    app.addHook("preSerialization", async (request, _reply, answer) => {
      const turn = turnOf.get(request);
      if (turn !== undefined && turn !== schedule.begun) await schedule.turn(addressOf(request), true);
      return answer;
    });
  },
  { name: "fair-turns", dependencies: ["client-address"] },
);

function addressOf({ address }: FastifyRequest): string {
  return ipPrefix(address, 32, 64);
}
