// Bounds how many requests compare documents at once. A diff, a roll-back and a dry run keep all documents that they show in memory until they are
// answered, and go on for many turns.

import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";
import { pauses } from "../limits/pauses.ts";
import { type Place, Places } from "../limits/places.ts";
import { ownerOf } from "../rights/caller.ts";
import { callerOf } from "./authentication.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Whether each request takes one of the places, as all dry runs do. */
    readonly comparesDocuments?: boolean;
  }
  interface FastifyInstance {
    /**
     * Returns what a request that computes for long calls between its steps: when it has computed for some milliseconds, it waits for its turn.
     * Rejects when the client has left, or the request's place is lost (ApiError reads-busy).
     */
    pausesOf(request: FastifyRequest): () => Promise<void>;
  }
}

/** One takes up to some tens of megabytes. */
const mostPlaces = 8;
/** Those that wait have at most one small body in memory. */
const mostWaiting = 256;

export default fp(
  async (app) => {
    const places = new Places(mostPlaces, mostWaiting, () => busy());
    const placeOf = new WeakMap<FastifyRequest, Place>();
    app.decorate("pausesOf", (request: FastifyRequest) => {
      const place = placeOf.get(request);
      if (place === undefined) return pauses(() => app.nextTurn(request));
      return pauses(() => place.untilLost(app.nextTurn(request)));
    });
    app.addHook("preHandler", async (request) => {
      const { dryRun } = request.query as { dryRun?: unknown };
      if (request.routeOptions.config.comparesDocuments !== true && dryRun !== true) return;
      const caller = callerOf(request);
      const place = await places.take({ app: ownerOf(caller), name: caller.id });
      placeOf.set(request, place);
      await app.ownTurn(request);
    });
    app.addHook("onSend", (request, _reply, answer, done) => {
      const place = placeOf.get(request);
      if (place !== undefined) places.leave(place);
      done(null, answer);
    });
  },
  { name: "long-reads", dependencies: ["authentication", "fair-turns"] },
);

function busy(): ApiError {
  const detail =
    "Too many diffs, roll-backs and dry runs go on, and no other owner has more of them than this one. Nothing was changed.";
  return new ApiError("reads-busy", detail, {}, { "retry-after": "1" });
}
