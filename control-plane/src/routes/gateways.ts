// /api/v1/gateways: who enforces what by now.

import type { FastifyInstance } from "fastify";
import type { Gateway } from "../push/fleet.ts";
import { querySchema } from "../schemas/parameters.ts";
import { answers } from "../schemas/responses.ts";

export default async function gatewayRoutes(app: FastifyInstance): Promise<void> {
  app.get(
    "/gateways",
    {
      schema: {
        tags: ["gateways"],
        summary: "Gateways connected now or within the last hour",
        querystring: querySchema({}),
        response: answers({ 200: "Fleet" }),
      },
    },
    async () => {
      const { epoch, revision } = app.publisher.current;
      return { revision, gateways: app.fleet.list().map((gateway) => shown(gateway, epoch, revision)) };
    },
  );
}

function shown(gateway: Gateway, epoch: string, current: number) {
  // A number of another history says nothing about this one: such a gateway is behind by all of it.
  const revision = gateway.epoch === epoch ? gateway.revision : 0;
  const { refused } = gateway;
  return {
    id: gateway.id,
    connected: gateway.disconnectedAtMs === undefined,
    connectedAt: new Date(gateway.connectedAtMs).toISOString(),
    disconnectedAt:
      gateway.disconnectedAtMs === undefined ? undefined : new Date(gateway.disconnectedAtMs).toISOString(),
    version: gateway.version,
    workers: gateway.workers,
    revision,
    lag: Math.max(0, current - revision),
    refused:
      refused === undefined
        ? null
        : { revision: refused.revision, at: new Date(refused.atMs).toISOString(), errors: refused.problems },
    counters: gateway.counters,
  };
}
