// /api/v1/events: what goes on, as server-sent events.

import type { FastifyInstance, FastifyRequest } from "fastify";
import { trafficName } from "../activity/activity.ts";
import { EventStream } from "../activity/event-stream.ts";
import { ApiError } from "../errors/api-error.ts";
import { callerOf, requireRight } from "../plugins/authentication.ts";
import type { Gateway } from "../push/fleet.ts";
import { policyParameter, querySchema } from "../schemas/parameters.ts";
import { answersWithEvents } from "../schemas/responses.ts";
import { getApp } from "../storage/apps.ts";
import { getPolicy } from "../storage/policies.ts";
import { type AskedPolicy, showPoint, topKeys } from "./activity.ts";

const everyMs = 1_000;
/** Reports about a second have come by then, unless a gateway is slow. */
const completeAfterMs = 2_000;
const topEveryMs = 5_000;
const topLimit = 10;
const quietMs = 15_000;
/** Who was disabled, or whose token was revoked, sees no more after that. */
const checkEveryMs = 5_000;
const mostStreams = 200;
const mostStreamsOfCaller = 20;

interface EventQuery {
  app?: string;
  policy?: string;
}

/** What a stream has told of a gateway. */
type Told = Pick<Gateway, "epoch" | "revision"> & { readonly connected: boolean; readonly refused: number | undefined };

export default async function eventRoutes(app: FastifyInstance): Promise<void> {
  const streams = new Map<EventStream, string>();
  app.addHook("preClose", async () => {
    for (const stream of streams.keys()) stream.end();
  });

  app.get<{ Querystring: EventQuery }>(
    "/events",
    {
      config: {
        access: "read",
        strangers: "filtered",
        refuses: ["too-many-streams", "app-not-found", "policy-not-found"],
      },
      schema: {
        tags: ["activity"],
        summary: "Follow what goes on, as server-sent events",
        description:
          "The stream has these events, with JSON as data: `gateway` when a gateway comes, goes, or applies or refuses a " +
          "revision; `revision` when a revision is pushed; each second `traffic` of the app, or of the policy, if there was " +
          "any; and each five seconds `top` of the policy, like GET /apps/{app}/top. At the start there is one of each for " +
          "the present state.",
        querystring: querySchema({
          app: { ...policyParameter, description: "Also follow the traffic of this app." },
          policy: { ...policyParameter, description: "Follow this policy of the app, and not all of them together." },
        }),
        response: answersWithEvents("Server-sent events, until either side ends the stream."),
      },
    },
    async (request, reply) => {
      const asked = await askedOf(request);
      const caller = callerOf(request);
      refuseTooMany(caller.id);
      const stream = new EventStream(() => {
        streams.delete(stream);
        stop();
      });
      streams.set(stream, caller.id);
      const stop = follow(stream, request, asked);
      return (
        reply
          .type("text/event-stream; charset=utf-8")
          .header("cache-control", "no-store")
          .header("x-accel-buffering", "no")
          // Nothing follows the stream: a connection that stayed open would delay a stop.
          .header("connection", "close")
          .send(stream.body)
      );
    },
  );

  /** @throws ApiError too-many-streams */
  function refuseTooMany(caller: string): void {
    const own = [...streams.values()].filter((id) => id === caller).length;
    if (own < mostStreamsOfCaller && streams.size < mostStreams) return;
    throw new ApiError(
      "too-many-streams",
      own < mostStreamsOfCaller
        ? `All ${mostStreams} streams of events are in use.`
        : `This token follows ${own} streams of events already, and may follow ${mostStreamsOfCaller}.`,
    );
  }

  /** @throws ApiError forbidden, app-not-found, policy-not-found, invalid-request */
  async function askedOf(request: FastifyRequest<{ Querystring: EventQuery }>): Promise<Asked> {
    const { app: name, policy } = request.query;
    if (name === undefined) {
      if (policy === undefined) return undefined;
      const problem = { path: "app", expected: "the name of the policy's app", got: "nothing" };
      throw new ApiError("invalid-request", "app: expected the name of the policy's app.", { errors: [problem] });
    }
    requireRight(callerOf(request), "read", name);
    if (policy === undefined) {
      await getApp(app.database, name);
      return { app: name };
    }
    return { app: name, policy, document: (await getPolicy(app.database, name, policy)).document };
  }

  /** @returns ends it */
  function follow(stream: EventStream, request: FastifyRequest, asked: Asked): () => void {
    const caller = callerOf(request);
    let told = new Map<string, Told>();
    let toldRevision = "";
    let toldTrafficMs = app.now() - completeAfterMs;
    const sentAtMs = { top: Number.NEGATIVE_INFINITY, anything: app.now(), check: app.now() };

    const send = (event: string, data: unknown) => {
      sentAtMs.anything = app.now();
      stream.send(event, data);
    };

    const tellFleet = () => {
      const { current } = app.publisher;
      if (toldRevision !== `${current.epoch} ${current.revision}`) {
        toldRevision = `${current.epoch} ${current.revision}`;
        send("revision", { revision: current.revision });
      }
      const now = new Map<string, Told>();
      for (const gateway of app.fleet.list()) {
        const { id, epoch, revision, refused, disconnectedAtMs } = gateway;
        const state: Told = { epoch, revision, connected: disconnectedAtMs === undefined, refused: refused?.revision };
        now.set(id, state);
        if (isSame(told.get(id), state)) continue;
        const applied = epoch === current.epoch ? revision : 0;
        send("gateway", { id, connected: state.connected, revision: applied, refused: state.refused });
      }
      for (const [id, { connected }] of told) {
        if (!now.has(id) && connected) send("gateway", { id, connected: false, revision: 0 });
      }
      told = now;
    };

    const tellTraffic = () => {
      if (asked === undefined) return;
      const untilMs = app.now() - completeAfterMs;
      const name = trafficName(asked.app, asked.policy);
      for (const point of app.activity.traffic.points(name, "second", toldTrafficMs, untilMs)) {
        send("traffic", { app: asked.app, policy: asked.policy, ...showPoint(point) });
      }
      toldTrafficMs = untilMs;
      if (asked.policy === undefined || app.now() - sentAtMs.top < topEveryMs) return;
      sentAtMs.top = app.now();
      send("top", topKeys(app, caller, asked as AskedPolicy, "minute", topLimit));
    };

    const checkCaller = () => {
      if (app.now() - sentAtMs.check < checkEveryMs) return;
      sentAtMs.check = app.now();
      app
        .identifyAgain(request)
        .then(
          (still) => {
            if (asked !== undefined) requireRight(still, "read", asked.app);
          },
          () => undefined,
        )
        .catch(() => stream.end());
    };

    const turn = () => {
      tellFleet();
      tellTraffic();
      checkCaller();
      if (app.now() - sentAtMs.anything >= quietMs) {
        sentAtMs.anything = app.now();
        stream.sendNothing();
      }
    };
    turn();
    const timer = setInterval(turn, everyMs).unref();
    app.fleet.on("members", tellFleet);
    app.fleet.on("progress", tellFleet);
    return () => {
      clearInterval(timer);
      app.fleet.off("members", tellFleet);
      app.fleet.off("progress", tellFleet);
    };
  }
}

/** Whose traffic a stream follows; undefined: nobody's. */
type Asked = { readonly app: string; readonly policy?: string; readonly document?: unknown } | undefined;

function isSame(before: Told | undefined, { epoch, revision, connected, refused }: Told): boolean {
  return (
    before?.epoch === epoch &&
    before.revision === revision &&
    before.connected === connected &&
    before.refused === refused
  );
}
