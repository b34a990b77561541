// Requests begin in an order that is fair to their addresses: a flood delays whoever sends it.

import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import fp from "fastify-plugin";
import { FairSchedule } from "../http/fair-schedule.ts";

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
  },
  { name: "fair-turns", dependencies: ["client-address"] },
);
