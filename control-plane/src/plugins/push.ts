// The push socket, the fleet of gateways and the publisher of snapshots.

import { randomUUID } from "node:crypto";
import fp from "fastify-plugin";
import manifest from "../../package.json" with { type: "json" };
import { ApiError } from "../errors/api-error.ts";
import { mostGateways, signedIn, upgraded } from "../http/connections.ts";
import { AdmittedSockets } from "../push/admitted-sockets.ts";
import { type Alarm, type AlarmName, alarmOf, alarmsOf } from "../push/alarms.ts";
import { Announcements, type ChangeChannel } from "../push/announcements.ts";
import { AppliedWaits, type Awaited } from "../push/applied-waits.ts";
import { ConsumerFeed } from "../push/consumer-feed.ts";
import { type CounterOrderSender, CounterOrders } from "../push/counter-orders.ts";
import { Fleet, type Gateway } from "../push/fleet.ts";
import { announceFleet } from "../push/fleet-size.ts";
import { closeCodes } from "../push/gateway-link.ts";
import { GatewayLog } from "../push/gateway-log.ts";
import { PassedOrders } from "../push/passed-orders.ts";
import { Peers } from "../push/peers.ts";
import { Publisher } from "../push/publisher.ts";
import { PushDurations } from "../push/push-durations.ts";
import { type PushTimes, runPushSession } from "../push/push-session.ts";
import type { Frame } from "../push/pushed-state.ts";
import { RedisIdentities } from "../push/redis-identities.ts";
import { answers } from "../schemas/responses.ts";
import { findCaller } from "../storage/callers.ts";
import { readConsumerChanges, readConsumersPosition } from "../storage/consumer-changes.ts";
import { countConsumers } from "../storage/consumers.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";
import { type Position, renewEpoch } from "../storage/epoch.ts";
import { readChanges, readHead, readState } from "../storage/state.ts";
import { readConsumerCounts } from "../storage/usage.ts";
import { callerOf } from "./authentication.ts";
import { addAlarmGauge, addGauge } from "./metrics.ts";

declare module "fastify" {
  interface FastifyInstance {
    readonly fleet: Fleet;
    readonly publisher: Publisher;
    readonly gatewayLog: GatewayLog;
    /** For the gateways of all control planes. */
    readonly counterOrders: CounterOrderSender;
    readonly appliedWaits: AppliedWaits;
    readonly consumerFeed: ConsumerFeed;
    /** Of requests that change a consumer. */
    readonly consumerWaits: AppliedWaits;
    readonly alarms: {
      of(gateway: Gateway): AlarmName | undefined;
      all(): Alarm[];
    };
  }
}

export const pushUrl = "/api/v1/push";

/** How often a control plane says by Redis that it is there. */
const beatEveryMs = 5_000;
const identifyEveryMs = 1_000;
/** The most gateways to name in one line of the log. */
const mostNamed = 10;
/** How long a gateway may stay connected by a token that is not valid any more. */
const checkTokensEveryMs = 5_000;

/**
 * `isShared`: other control planes may use the same database. `databaseChannel` carries announcements of changes if there is no
 * Redis.
 */
interface PushOptions {
  readonly now: () => number;
  readonly uptimeMs: () => number;
  readonly times: PushTimes;
  readonly isShared: boolean;
  readonly databaseChannel: ChangeChannel | undefined;
}

export default fp<PushOptions>(
  async (app, { now, uptimeMs, times, isShared, databaseChannel }) => {
    const fleet = new Fleet(now);
    const newest = () => publisher.current;
    const durations = new PushDurations<unknown>(fleet, newest, (pushed) => {
      app.metrics.pushes.observe((pushed.settledAtMs - pushed.storedAtMs) / 1_000);
      app.tracing?.pushed(pushed);
    });
    const channel = app.redis?.changes ?? databaseChannel;
    let announcements: Announcements | undefined;
    /** Others are told as soon as a position is read, before a snapshot is made of it. */
    const noticed = <Read extends Position>(read: Read): Read => {
      announcements?.noticed(read);
      return read;
    };
    const publisher: Publisher = await Publisher.start({
      fleet,
      now,
      edition: editionNow(now()),
      // Not on behalf of whoever has made the change: those of others wait for it, too.
      readState: () => onBehalfOf.exit(() => readState(app.database, now())).then(noticed),
      readChanges: (since) => onBehalfOf.exit(() => readChanges(app.database, since, now())),
      readHead: () => readHead(app.database).then(noticed),
      renewEpoch: async (held) => {
        const origin = { who: "control plane", atMs: now() };
        const left = await onBehalfOf.exit(() => renewEpoch(app.database, origin, held));
        if (left === undefined) return;
        app.log.warn(
          { epoch: left.epoch, databaseRevision: left.revision, heldRevision: held.revision },
          "gateways hold revisions that the database has lost, as after a restore of a backup: beginning a new history",
        );
      },
      onError: (error) => app.log.error({ err: error }, "cannot read the policies; trying again"),
      onWanted: () => {
        const storedAtMs = performance.now();
        const origin = app.tracing?.current();
        return (frame) => {
          app.metrics.snapshotBuilds.observe((performance.now() - storedAtMs) / 1_000);
          durations.published(frame, storedAtMs, origin);
        };
      },
    });
    app.decorate("fleet", fleet);
    const counterOrders = new CounterOrders(fleet);
    app.decorate("publisher", publisher);
    const id = randomUUID();
    const passedOrders = new PassedOrders({
      database: app.database,
      fleet,
      here: counterOrders,
      id,
      onError: (error) => {
        const what = "an order about a counter did not reach all control planes";
        app.minuteLog.say("error", what, { err: error }, what);
      },
    });
    const sender: CounterOrderSender = isShared ? passedOrders : counterOrders;
    app.decorate("counterOrders", sender);
    app.decorate("appliedWaits", new AppliedWaits(fleet, newest));
    const consumerFeed = new ConsumerFeed({
      fleet,
      readPosition: () => readConsumersPosition(app.database),
      readChanges: (after, limit) => readConsumerChanges(app.database, after, limit),
      readCounts: (apps) => readConsumerCounts(app.database, apps),
      onSent: (bytes) => app.metrics.consumerBytesSent.inc(bytes),
      onError: (error) => app.log.error({ err: error }, "cannot read the consumers; trying again"),
    });
    await consumerFeed.start();
    app.decorate("consumerFeed", consumerFeed);
    const awaited: Awaited = {
      on: (event, listener) => fleet.on(event === "progress" ? "consumers" : event, listener),
      applied: (position, revision, of = "") => fleet.appliedConsumers(position, revision, of),
      settled: (position) => fleet.settledConsumers(position),
    };
    const newestConsumers = () => ({ epoch: consumerFeed.newest.epoch, revision: consumerFeed.newest.position });
    app.decorate("consumerWaits", new AppliedWaits(awaited, newestConsumers));
    const stopAnnouncing = announceFleet(fleet);
    const peers = new Peers({
      database: app.database,
      fleet,
      publisher,
      consumerFeed,
      id,
      onAsked: () => void passedOrders.carryOut(),
      onCount: (controlPlanes) => app.requestLimits.shareAmong(controlPlanes),
      onUnheard: () => {
        const links = fleet.links();
        app.log.error(
          { gateways: links.length },
          "cut off from the database, which other control planes may still reach: closing the gateways' sockets, so that these go there",
        );
        for (const link of links) link.close(closeCodes.goingAway, "this control plane is cut off from the database");
      },
      onError: (error) => app.log.error({ err: error }, "cannot exchange with other control planes; trying again"),
    });
    if (isShared) {
      await peers.join();
      peers.start();
    }
    if (channel !== undefined) {
      announcements = new Announcements({
        channel,
        current: newest,
        publishIfBehind: () => publisher.publishIfBehind(),
        beatEveryMs: app.redis === undefined ? undefined : beatEveryMs,
        onAnotherDatabase: (epoch) => {
          if (epoch === undefined) app.log.warn("no control plane with another database uses this Redis any more");
          else
            app.log.error(
              { epoch, ownEpoch: newest().epoch },
              "another-database: a control plane with another database uses the same Redis. Give both the same SLUICE_DATABASE_URL, or each its own Redis (or Redis database)",
            );
        },
      });
      announcements.start();
    }
    const identities = new RedisIdentities();
    const identifying = setInterval(() => {
      if (!identities.look(fleet.list(), app.redis?.link.identity, now())) return;
      const gateways = [...identities.strays];
      if (gateways.length === 0) app.log.warn("all gateways use the same Redis again");
      else
        app.log.error(
          { gateways: gateways.slice(0, mostNamed), inAll: gateways.length },
          "another-redis: these gateways use another Redis than their fleet, and count alone",
        );
    }, identifyEveryMs).unref();
    const surroundings = () => ({
      newest: newest(),
      nowMs: now(),
      strays: identities.strays,
      needsRedis: publisher.state.needsRedis,
      hearsAnotherDatabase: announcements?.anotherDatabase !== undefined,
    });
    app.decorate("alarms", {
      of: (gateway: Gateway) => alarmOf(gateway, surroundings()),
      all: () => alarmsOf(fleet.list(), surroundings()),
    });
    const gatewayLog = new GatewayLog(app.log, uptimeMs);
    app.decorate("gatewayLog", gatewayLog);
    const admitted = new AdmittedSockets();
    const isGateway = async (token: string) => {
      const caller = await findCaller(app.database, { id: token }, { nowMs: now(), groups: app.groupMapping });
      return typeof caller !== "string" && caller.isGateway;
    };
    const checkingTokens = setInterval(() => {
      admitted.closeInvalid(isGateway).then(
        (closed) => {
          if (closed > 0) app.log.warn({ gateways: closed }, "closed the sockets of gateways whose token was replaced");
        },
        (error) => app.log.debug({ err: error }, "cannot check the tokens of gateways; trying again"),
      );
    }, checkTokensEveryMs).unref();

    app.addHook("preClose", async () => {
      gatewayLog.stop();
      fleet.emit("closing");
    });

    const counts = {
      frameSent: ({ type, bytes }: Frame) => {
        (type === "snapshot" ? app.metrics.snapshotsSent : app.metrics.deltasSent).inc();
        (type === "snapshot" ? app.metrics.snapshotBytesSent : app.metrics.deltaBytesSent).inc(bytes);
      },
      snapshotRefused: () => app.metrics.snapshotsRefused.inc(),
    };
    app.route({
      method: "GET",
      url: pushUrl,
      exposeHeadRoute: false,
      // Thousands of gateways may come back at once, and through one address.
      config: { access: "gateway", limited: false, refuses: ["upgrade-required"] },
      schema: {
        tags: ["gateways"],
        summary: "Open the push socket, as a gateway (a WebSocket)",
        response: answers({ 101: { type: "null", description: "The connection is a WebSocket now." } }),
      },
      onError: async (request, _, error) => {
        if (isRefusal(error)) gatewayLog.refused(request.address, error.message);
      },
      // Runs only if the request does not ask for the upgrade.
      handler: async () => {
        throw new ApiError("upgrade-required", "Open this URL as a WebSocket.", {}, { upgrade: "websocket" });
      },
      wsHandler: (socket, request) => {
        admitted.add(callerOf(request).id, socket);
        const connection = request.raw.socket;
        runPushSession(socket, {
          fleet,
          publisher,
          counterOrders,
          consumerFeed,
          counts,
          times,
          gatewayLog,
          takeActivity: app.takeActivity,
          address: request.address,
          bytesRead: () => connection.bytesRead,
          onBegin: (unfinishedBytes) => void app.server.emit(upgraded, connection, unfinishedBytes),
          takePlace: (gateway) => {
            app.server.emit(signedIn, connection, gateway);
            if (!connection.destroyed) return true;
            gatewayLog.warn(
              gateway,
              request.address,
              { mostGateways },
              "as many gateways are connected as may be, and none from an address with more of them than this one; closing its socket",
            );
            return false;
          },
        });
      },
    });

    addGauge(
      app.metrics,
      "sluice_control_revision",
      "The newest revision read from the database.",
      () => publisher.current.revision,
    );
    addGauge(app.metrics, "sluice_control_gateways_connected", "Gateways connected here.", () => fleet.links().length);
    addGauge(app.metrics, "sluice_control_snapshot_bytes", "Size of the newest snapshot.", () => publisher.state.bytes);
    addGauge(
      app.metrics,
      "sluice_control_consumers_position",
      "The newest change of a consumer read from the database.",
      () => consumerFeed.newest.position,
    );
    addGauge(app.metrics, "sluice_control_consumers", "Consumers of all apps.", () => countConsumers(app.database));
    addAlarmGauge(app.metrics, () => app.alarms.all());
    app.addHook("onClose", async () => {
      clearInterval(identifying);
      clearInterval(checkingTokens);
      stopAnnouncing();
      await announcements?.stop();
      await publisher.stop();
      await consumerFeed.stop();
      if (!isShared) return;
      await passedOrders.stop();
      await peers.stop();
    });
  },
  {
    name: "push",
    dependencies: [
      "activity",
      "database",
      "websockets",
      "authentication",
      "metrics",
      "minute-log",
      "redis",
      "request-limits",
    ],
  },
);

/**
 * What a gateway gets besides what is stored depends on our version and on what Node knows of time zones. How far their changes
 * reach ahead depends on the year.
 */
function editionNow(nowMs: number): string {
  return `${manifest.version} ${process.versions.tz} ${new Date(nowMs).getUTCFullYear()}`;
}

/** Returns whether the request was refused because of its token. */
function isRefusal(error: Error): boolean {
  return error instanceof ApiError && (error.code === "unauthorized" || error.code === "forbidden");
}
