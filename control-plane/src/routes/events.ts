// /api/v1/events: what goes on, as server-sent events.

import type { FastifyInstance, FastifyRequest } from "fastify";
import { trafficName } from "../activity/activity.ts";
import { EventStream } from "../activity/event-stream.ts";
import { ApiError } from "../errors/api-error.ts";
import { callerOf, requireRight } from "../plugins/authentication.ts";
import { policyParameter, querySchema } from "../schemas/parameters.ts";
import { answersWithEvents } from "../schemas/responses.ts";
import { getApp } from "../storage/apps.ts";
import { getPolicy } from "../storage/policies.ts";
import { type AskedPolicy, showPoint, topKeys } from "./activity.ts";

const everyMs = 250;
/** Reports about a second have come by then, unless a gateway is slow. */
const completeAfterMs = 3_000;
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

interface GatewayState {
  readonly connected: boolean;
  /** The revision that it has applied; 0: none of this history. */
  readonly revision: number;
  /** The revision that it has refused. */
  readonly refused: number | undefined;
}

interface FleetState {
  readonly epoch: string;
  readonly revision: number;
  /** By their ids. */
  readonly gateways: ReadonlyMap<string, GatewayState>;
}

export default async function eventRoutes(app: FastifyInstance): Promise<void> {
  const streams = new Map<EventStream, { readonly caller: string; readonly tell: (fleet: FleetState) => void }>();
  // Thousands of gateways may report at once: the streams share what is read of them a few times a second.
  let fleet = readFleet();
  let isFleetNew = true;
  for (const event of ["members", "progress"] as const) {
    app.fleet.on(event, () => {
      isFleetNew = true;
    });
  }
  const timer = setInterval(() => {
    if (streams.size === 0) return;
    if (isFleetNew) fleet = readFleet();
    isFleetNew = false;
    for (const { tell } of streams.values()) tell(fleet);
  }, everyMs).unref();
  app.addHook("preClose", async () => {
    clearInterval(timer);
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
      const stream = new EventStream(() => streams.delete(stream));
      const tell = follow(stream, request, asked);
      streams.set(stream, { caller: caller.id, tell });
      tell(readFleet());
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
    const own = [...streams.values()].filter((stream) => stream.caller === caller).length;
    if (own < mostStreamsOfCaller && streams.size < mostStreams) return;
    const detail =
      own < mostStreamsOfCaller
        ? `All ${mostStreams} streams of events are in use.`
        : `This token follows ${own} streams of events already, and may follow ${mostStreamsOfCaller}.`;
    throw new ApiError("too-many-streams", detail, {}, { "retry-after": "5" });
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

  /** @returns what tells the stream what is new; called again and again until the stream ends */
  function follow(stream: EventStream, request: FastifyRequest, asked: Asked): (fleet: FleetState) => void {
    const caller = callerOf(request);
    let told: FleetState | undefined;
    let toldTrafficMs = app.now() - completeAfterMs;
    const atMs = { top: Number.NEGATIVE_INFINITY, anything: app.now(), check: app.now() };

    const send = (event: string, data: unknown) => {
      atMs.anything = app.now();
      stream.send(event, data);
    };

    const tellFleet = (fleet: FleetState) => {
      if (fleet === told) return;
      if (told?.epoch !== fleet.epoch || told.revision !== fleet.revision)
        send("revision", { revision: fleet.revision });
      for (const [id, gateway] of fleet.gateways) {
        if (!isSame(told?.gateways.get(id), gateway)) send("gateway", { id, ...gateway });
      }
      for (const [id, { connected }] of told?.gateways ?? []) {
        if (connected && !fleet.gateways.has(id)) send("gateway", { id, connected: false, revision: 0 });
      }
      told = fleet;
    };

    const tellTraffic = () => {
      if (asked === undefined) return;
      const untilMs = app.now() - completeAfterMs;
      const name = trafficName(asked.app, asked.policy);
      for (const point of app.activity.traffic.points(name, "second", toldTrafficMs, untilMs)) {
        send("traffic", { app: asked.app, policy: asked.policy, ...showPoint(point) });
      }
      toldTrafficMs = untilMs;
      if (asked.policy === undefined || app.now() - atMs.top < topEveryMs) return;
      atMs.top = app.now();
      send("top", topKeys(app, caller, asked as AskedPolicy, "minute", topLimit));
    };

    const endUnlessAllowed = async () => {
      try {
        const still = await app.identifyAgain(request);
        if (asked !== undefined) requireRight(still, "read", asked.app);
      } catch (error) {
        // While the database does not answer, nobody knows better.
        if (error instanceof ApiError) stream.end();
      }
    };

    return (fleet) => {
      tellFleet(fleet);
      tellTraffic();
      if (app.now() - atMs.check >= checkEveryMs) {
        atMs.check = app.now();
        void endUnlessAllowed();
      }
      if (app.now() - atMs.anything >= quietMs) {
        atMs.anything = app.now();
        stream.sendNothing();
      }
    };
  }

  function readFleet(): FleetState {
    const { epoch, revision } = app.publisher.current;
    const gateways = app.fleet.list().map((gateway): [string, GatewayState] => {
      // A revision number of another history means nothing in this one.
      const applied = gateway.epoch === epoch ? gateway.revision : 0;
      const connected = gateway.disconnectedAtMs === undefined;
      return [gateway.id, { connected, revision: applied, refused: gateway.refused?.revision }];
    });
    return { epoch, revision, gateways: new Map(gateways) };
  }
}

/** Whose traffic a stream follows; undefined: nobody's. */
type Asked = { readonly app: string; readonly policy?: string; readonly document?: unknown } | undefined;

function isSame(before: GatewayState | undefined, { connected, revision, refused }: GatewayState): boolean {
  return before?.connected === connected && before.revision === revision && before.refused === refused;
}
