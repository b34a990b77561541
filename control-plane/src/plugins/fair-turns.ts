// Requests begin in an order that is fair to their addresses, and to who shares an address, and change the database in one that is fair to who
// makes the changes: a flood delays whoever sends it.

import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { FairSchedule } from "../http/fair-schedule.ts";
import { ownerOf, ownersOf, ownersOfStrangers } from "../rights/caller.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";

declare module "fastify" {
  interface FastifyInstance {
    /**
     * Resolves when the request may compute for some milliseconds more: it takes turns with those of other addresses. Rejects when its client has
     * left: nobody waits for the answer any more.
     */
    nextTurn(request: FastifyRequest): Promise<void>;
    /** As nextTurn; resolves at once if the request's turn was the last to begin. */
    ownTurn(request: FastifyRequest): Promise<void>;
  }
}

interface FairTurnsOptions {
  /** Returns whose the request seems to be, before it is identified. */
  readonly knownOwners: (request: FastifyRequest) => readonly string[] | undefined;
}

export default fp<FairTurnsOptions>(
  async (app, { knownOwners }) => {
    const schedule = new FairSchedule();
    app.server.on("connection", () => schedule.noteConnection());
    /** The last turn of each request. */
    const turnOf = new WeakMap<FastifyRequest, number>();
    const wait = async (request: FastifyRequest, goesOn: boolean) => {
      // A flood with one credential delays nobody of the same address who has another one. A client that invents credentials stays a stranger.
      const owners = request.caller === undefined ? knownOwners(request) : ownersOf(request.caller);
      await schedule.turn([...networksOf(request), ...(owners ?? ownersOfStrangers)], goesOn);
      turnOf.set(request, schedule.begun);
    };
    const hasTurn = (request: FastifyRequest) => turnOf.get(request) === schedule.begun;
    const nextTurn = async (request: FastifyRequest) => {
      await wait(request, true);
      // As if the connection had broken off while something of the request was still to come.
      if (request.raw.socket.destroyed) throw Object.assign(new Error("the client has left"), { code: "ECONNRESET" });
    };
    app.decorate("nextTurn", nextTurn);
    app.decorate("ownTurn", async (request: FastifyRequest) => {
      if (!hasTurn(request)) await nextTurn(request);
    });
    // Until it is known who sends the request: identifying them may change a session.
    app.addHook("onRequest", (request, _reply, done) => onBehalfOf.run(strangerAt(request), done));
    app.addHook("onRequest", async (request, reply) => {
      await wait(request, false);
      // Nobody waits for the answer any more.
      if (request.raw.destroyed) reply.hijack();
    });
    // Changes take turns by who makes them, since one may hold the database for half a second.
    app.addHook("preHandler", (request, _reply, done) => {
      const { caller } = request;
      onBehalfOf.run(caller === undefined ? strangerAt(request) : ownerOf(caller), done);
    });
    // The database answers several requests at once: without turns, everybody would wait until all these answers are written.
    app.addHook("preSerialization", async (request, _reply, answer) => {
      if (turnOf.has(request) && !hasTurn(request)) await wait(request, true);
      return answer;
    });
  },
  { name: "fair-turns", dependencies: ["client-address"] },
);

/** Whoever has many addresses has them in few large networks. */
function networksOf(request: FastifyRequest): string[] {
  const { address } = request;
  return [ipPrefix(address, 16, 32), ipPrefix(address, 24, 48), addressOf(request)];
}

function addressOf({ address }: FastifyRequest): string {
  return ipPrefix(address, 32, 64);
}

function strangerAt(request: FastifyRequest): string {
  return `address ${addressOf(request)}`;
}
