// /api/v1/events: what goes on, as server-sent events.

import { setImmediate } from "node:timers/promises";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { EventStream } from "../activity/event-stream.ts";
import { FleetChanges, type GatewayState } from "../activity/fleet-changes.ts";
import { countedSinceMs } from "../activity/traffic.ts";
import { ApiError } from "../errors/api-error.ts";
import { pauses } from "../limits/pauses.ts";
import { type Taken, whoGivesWay } from "../limits/who-gives-way.ts";
import { callerOf, requireAccess, requireRight } from "../plugins/authentication.ts";
import type { Caller } from "../rights/caller.ts";
import { appParameter, policyParameter, querySchema } from "../schemas/parameters.ts";
import { invalidRequest } from "../schemas/read-body.ts";
import { answersWithEvents } from "../schemas/responses.ts";
import { getApp } from "../storage/apps.ts";
import { type AskedPolicy, askedPolicy, showPoint, topKeys } from "./activity.ts";

const everyMs = 250;
const unfinishedEveryMs = 500;
const topEveryMs = 5_000;
const topLimit = 10;
/** Each may take a millisecond. So all streams have one in five seconds, also if all began at once. */
const topsAtOnce = 10;
const quietMs = 15_000;
/** Who was disabled, whose token was revoked or whose session has ended sees no more after that. */
const checkEveryMs = 5_000;
/** How far a stream that was broken off goes back to where it was. */
const mostResumedMs = 3_600_000;
/** It is told in parts, each a quarter of a second after the one before: together, they are more than may be unread. */
const toldAtOnceMs = 600_000;
const mostStreams = 200;
/** Of a member, by all of their tokens and sessions, or of a service's token. */
const mostStreamsOfOwner = 20;

interface EventQuery {
  app?: string;
  policy?: string;
}

interface Followed extends Taken {
  readonly stream: EventStream;
  tell(): void;
}

export default async function eventRoutes(app: FastifyInstance): Promise<void> {
  const streams = new Map<EventStream, Followed>();
  // Thousands of gateways may report at once: the streams share what is read of them a few times a second.
  const gateways = new FleetChanges();
  let newest = app.publisher.current;
  let isFleetNew = true;
  let isStopping = false;
  let topsLeft = topsAtOnce;
  for (const event of ["members", "progress"] as const) {
    app.fleet.on(event, () => {
      isFleetNew = true;
    });
  }
  let isTelling = false;
  const tellAll = async () => {
    if (isTelling) return;
    isTelling = true;
    const pause = pauses(setImmediate);
    for (const { stream, tell } of [...streams.values()]) {
      // Two hundred streams may each tell of four thousand gateways.
      await pause();
      if (streams.has(stream)) tell();
    }
    isTelling = false;
  };
  const timer = setInterval(() => {
    if (streams.size === 0) return;
    if (isFleetNew) readFleet();
    isFleetNew = false;
    topsLeft = topsAtOnce;
    void tellAll();
  }, everyMs).unref();
  app.addHook("preClose", async () => {
    isStopping = true;
    clearInterval(timer);
    for (const stream of streams.keys()) stream.end();
  });

  app.get<{ Querystring: EventQuery }>(
    "/events",
    {
      // Nobody would read the stream of an answer without a body, and so end it.
      exposeHeadRoute: false,
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
          "any, once it is complete; twice a second `unfinished`, the seconds since then, whose counts may still grow; and " +
          "each five seconds `top` of the policy, like GET /apps/{app}/top. At the start there is one of each for " +
          "the present state. After a lost connection, the header `Last-Event-ID`, which browsers send by themselves, has " +
          "`traffic` go on where it was. The stream tells as much as its client reads, and ends if the client reads nothing for half a minute.",
        querystring: querySchema({
          app: { ...appParameter, description: "Also follow the traffic of this app." },
          policy: { ...policyParameter, description: "Follow this policy of the app, and not all of them together." },
        }),
        response: answersWithEvents("Server-sent events, until either side ends the stream."),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const asked = await askedOf(request, caller);
      const [ofApp = ""] = caller.roles.size === 1 ? caller.roles.keys() : [];
      const taken = { app: ofApp, name: ownerOf(caller), size: 1 };
      makeRoom(taken);
      const stream = new EventStream(() => streams.delete(stream));
      readFleet();
      const tell = follow(stream, request, asked);
      streams.set(stream, { ...taken, stream, tell });
      tell();
      // It came while the others were ended: nobody would end it later.
      if (isStopping) stream.end();
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

  /**
   * If all streams are in use, the last one of whoever has the most ends for whoever has fewer.
   * @throws ApiError too-many-streams
   */
  function makeRoom(newcomer: Taken): void {
    const own = [...streams.values()].filter(({ name }) => name === newcomer.name).length;
    if (own < mostStreamsOfOwner && (streams.size < mostStreams || endOne(newcomer))) return;
    const detail =
      own < mostStreamsOfOwner
        ? `All ${mostStreams} streams of events are in use.`
        : `This member or token follows ${own} streams of events already, and may follow ${mostStreamsOfOwner}.`;
    throw new ApiError("too-many-streams", detail, {}, { "retry-after": "5" });
  }

  /** @returns whether one has ended */
  function endOne(newcomer: Taken): boolean {
    const last = whoGivesWay(streams.values(), newcomer)?.stream;
    if (last === undefined) return false;
    streams.delete(last);
    last.end();
    return true;
  }

  /** @throws ApiError forbidden, app-not-found, policy-not-found, invalid-request */
  async function askedOf({ query }: EventRequest, caller: Caller): Promise<Asked> {
    const { app: name, policy } = query;
    if (name === undefined) {
      if (policy === undefined) return undefined;
      throw invalidRequest({ path: "app", expected: "the name of the policy's app", got: "nothing" });
    }
    requireRight(caller, "read", name);
    if (policy === undefined) {
      const { createdAtMs } = await getApp(app.database, name);
      return { app: name, appSinceMs: createdAtMs };
    }
    return askedPolicy(app, name, policy);
  }

  /** @returns what tells the stream what is new; called again and again until the stream ends */
  function follow(stream: EventStream, request: EventRequest, first: Asked): () => void {
    let caller = callerOf(request);
    let asked = first;
    let isChecking = false;
    let told: typeof newest | undefined;
    let toldGateways = 0;
    const begun = gateways.newest;
    const completeMs = () => app.now() - app.trafficCompleteAfterMs;
    let toldTrafficMs = lastToldMs(request) ?? completeMs();
    let toldUnfinished = "";
    const atMs = { top: Number.NEGATIVE_INFINITY, unfinished: app.now(), anything: app.now(), check: app.now() };

    // A clock that has stepped back must not make anything wait until it is where it was.
    const isDue = (sinceMs: number, everyMs: number) => Math.abs(app.now() - sinceMs) >= everyMs;

    const send = (event: string, data: unknown, id?: number) => {
      atMs.anything = app.now();
      stream.send(event, data, id);
    };

    const tellFleet = () => {
      if (told?.epoch !== newest.epoch || told.revision !== newest.revision)
        send("revision", { revision: newest.revision });
      told = newest;
      for (const { number, ...gateway } of gateways.since(toldGateways, begun)) {
        if (!stream.hasRoom) return;
        send("gateway", gateway);
        toldGateways = number;
      }
    };

    const tellUnfinished = (counted: NonNullable<Asked>, sinceMs: number) => {
      atMs.unfinished = app.now();
      const points = app.activity.points(counted, "second", sinceMs, app.now() + 1).map(showPoint);
      const text = JSON.stringify(points);
      if (points.length > 0 && text !== toldUnfinished) {
        send("unfinished", { app: counted.app, policy: counted.policy, points });
      }
      toldUnfinished = text;
    };

    const tellTraffic = () => {
      if (asked === undefined) return;
      const sinceMs = countedSinceMs(asked.appSinceMs, "second");
      const fromMs = Math.max(toldTrafficMs, sinceMs);
      const untilMs = Math.min(completeMs(), fromMs + toldAtOnceMs);
      for (const point of app.activity.points(asked, "second", fromMs, untilMs)) {
        send("traffic", { app: asked.app, policy: asked.policy, ...showPoint(point) }, point.atMs + 1_000);
      }
      toldTrafficMs = untilMs;
      if (untilMs < completeMs()) return;
      if (isDue(atMs.unfinished, unfinishedEveryMs)) tellUnfinished(asked, Math.max(untilMs, sinceMs));
      if (!("document" in asked) || topsLeft <= 0 || !isDue(atMs.top, topEveryMs)) return;
      topsLeft -= 1;
      atMs.top = app.now();
      send("top", topKeys(app, caller, asked, "minute", topLimit));
    };

    // The caller may have another role meanwhile, and the policy another key: both decide what of a key is shown.
    const readAgain = async () => {
      isChecking = true;
      try {
        caller = await app.identifyAgain(request);
        requireAccess(caller, "read", asked?.app);
        asked = await askedOf(request, caller);
      } catch (error) {
        // While the database does not answer, nobody knows better.
        if (error instanceof ApiError) stream.end();
      }
      isChecking = false;
    };

    return () => {
      stream.endIfUnread();
      if (stream.hasRoom) tellFleet();
      if (stream.hasRoom) tellTraffic();
      if (!isChecking && isDue(atMs.check, checkEveryMs)) {
        atMs.check = app.now();
        void readAgain();
      }
      if (isDue(atMs.anything, quietMs)) {
        atMs.anything = app.now();
        stream.sendNothing();
      }
    };
  }

  /** @returns until when a stream that goes on was told of traffic; undefined: it is a new one */
  function lastToldMs({ headers }: EventRequest): number | undefined {
    const id = headers["last-event-id"];
    if (typeof id !== "string" || !/^\d{1,15}$/.test(id)) return undefined;
    return Math.max(Number(id), app.now() - mostResumedMs);
  }

  function readFleet(): void {
    newest = app.publisher.current;
    const states = app.fleet.list().map((gateway): [string, GatewayState] => {
      // A revision number of another history means nothing in this one.
      const applied = gateway.epoch === newest.epoch ? gateway.revision : 0;
      const connected = gateway.disconnectedAtMs === undefined;
      return [gateway.id, { connected, revision: applied, refused: gateway.refused?.revision }];
    });
    gateways.update(new Map(states));
  }
}

type EventRequest = FastifyRequest<{ Querystring: EventQuery }>;

/** Whose traffic a stream follows; undefined: nobody's. */
type Asked = (Pick<AskedPolicy, "app" | "appSinceMs"> & { readonly policy?: undefined }) | AskedPolicy | undefined;

function ownerOf({ id, member }: Caller): string {
  return member === undefined ? `token ${id}` : `member ${member}`;
}
