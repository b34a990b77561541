// /api/v1/gateways: the gateways, and the revision that each enforces.

import type { FastifyInstance } from "fastify";
import { callerOf } from "../plugins/authentication.ts";
import type { AlarmName } from "../push/alarms.ts";
import type { Gateway } from "../push/fleet.ts";
import { afterIdParameter, limitParameter, querySchema } from "../schemas/parameters.ts";
import { answers } from "../schemas/responses.ts";
import type { ConsumersPosition } from "../storage/consumer-changes.ts";
import type { Position } from "../storage/epoch.ts";
import { pageOf } from "../storage/pages.ts";
import { problemsFor } from "./applied.ts";

export default async function gatewayRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Querystring: { after: string; limit: number } }>(
    "/gateways",
    {
      config: { access: "read", strangers: "filtered" },
      schema: {
        tags: ["gateways"],
        summary: "List the gateways that are connected or were within the last hour, by id",
        description:
          "Those of other control planes of the database are among them while these run: if one is killed, its gateways are in the list again when they have connected to another one.",
        querystring: querySchema({
          after: { ...afterIdParameter, description: "Return gateways after this id: `next` of the previous page." },
          limit: limitParameter,
        }),
        response: answers({ 200: "Fleet" }),
      },
    },
    async (request) => {
      const { current } = app.publisher;
      const seesAll = callerOf(request).isAdmin;
      const redis = redisSeenHere(app, seesAll);
      const { after, limit } = request.query;
      const show = (gateway: Gateway) => ({
        ...shown(gateway, current, app.alarms.of(gateway), seesAll),
        consumers: shownConsumers(gateway, app.consumerFeed.newest),
      });
      const found = app.fleet
        .list()
        .filter(({ id }) => id > after)
        .slice(0, limit + 1)
        .map((gateway) => ({
          gateway,
          get size() {
            return JSON.stringify(show(gateway)).length;
          },
        }));
      const { page, hasMore } = pageOf(found, limit);
      return {
        revision: current.revision,
        consumersPosition: app.consumerFeed.newest.position,
        connected: app.fleet.connectedCount,
        redis,
        gateways: page.map(({ gateway }) => show(gateway)),
        next: hasMore ? page.at(-1)?.gateway.id : undefined,
      };
    },
  );
}

/** @param seesAll whether the reader may see error messages of Redis, which contain its address */
function redisSeenHere({ redis }: FastifyInstance, seesAll: boolean) {
  if (redis === undefined) return { state: "not-configured" };
  const { state, sinceMs, error } = redis.link.health;
  const id = redis.link.identity;
  return { state, since: new Date(sinceMs).toISOString(), error: seesAll ? error : undefined, id };
}

function shownConsumers({ consumers }: Gateway, newest: ConsumersPosition) {
  if (consumers === undefined) return null;
  const position = consumers.epoch === newest.epoch ? consumers.position : 0;
  const { count, unstored } = consumers;
  return { position, lag: Math.max(0, newest.position - position), count, unstored };
}

/** @param seesAll whether the reader may see the problems of every app's policies */
function shown(gateway: Gateway, newest: Position, alarm: AlarmName | undefined, seesAll: boolean) {
  // A revision number of another history means nothing in this one: such a gateway has nothing of this history.
  const revision = gateway.epoch === newest.epoch ? gateway.revision : 0;
  const { refused } = gateway;
  return {
    id: gateway.id,
    connected: gateway.disconnectedAtMs === undefined,
    connectedAt: new Date(gateway.connectedAtMs).toISOString(),
    disconnectedAt:
      gateway.disconnectedAtMs === undefined ? undefined : new Date(gateway.disconnectedAtMs).toISOString(),
    version: gateway.version,
    workers: gateway.workers,
    protocol: gateway.protocol,
    revision,
    lag: Math.max(0, newest.revision - revision),
    alarm: alarm ?? null,
    refused:
      refused === undefined
        ? null
        : {
            revision: refused.revision,
            at: new Date(refused.atMs).toISOString(),
            errors: problemsFor(refused.problems, seesAll),
          },
    counters: gateway.counters,
    errors: gateway.errors ?? null,
    warnings: gateway.warnings ?? [],
    redis:
      gateway.redis === undefined
        ? null
        : {
            state: gateway.redis.state,
            since: new Date(gateway.redis.sinceSeconds * 1000).toISOString(),
            id: gateway.redis.id,
            strayWorkers: gateway.redis.strayWorkers ?? 0,
            overloadedWorkers: gateway.redis.overloadedWorkers ?? 0,
          },
  };
}
