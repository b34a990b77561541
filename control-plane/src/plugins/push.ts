// The push socket, the fleet of gateways and the publisher of snapshots.

import { randomUUID } from "node:crypto";
import type { FastifyBaseLogger } from "fastify";
import fp from "fastify-plugin";
import manifest from "../../package.json" with { type: "json" };
import { ApiError } from "../errors/api-error.ts";
import { alarmsOf } from "../push/alarms.ts";
import { AppliedWaits } from "../push/applied-waits.ts";
import { type CounterOrderSender, CounterOrders } from "../push/counter-orders.ts";
import { Fleet } from "../push/fleet.ts";
import { GatewayLog } from "../push/gateway-log.ts";
import { PassedOrders } from "../push/passed-orders.ts";
import { Peers } from "../push/peers.ts";
import { Publisher } from "../push/publisher.ts";
import { PushDurations } from "../push/push-durations.ts";
import { announceFleet, type PushTimes, runPushSession } from "../push/push-session.ts";
import type { Frame } from "../push/pushed-state.ts";
import { answers } from "../schemas/responses.ts";
import { renewEpoch } from "../storage/epoch.ts";
import { readChanges, readHead, readState } from "../storage/state.ts";
import { addAlarmGauge, addGauge } from "./metrics.ts";

declare module "fastify" {
  interface FastifyInstance {
    readonly fleet: Fleet;
    readonly publisher: Publisher;
    /** For the gateways of all control planes. */
    readonly counterOrders: CounterOrderSender;
    readonly appliedWaits: AppliedWaits;
  }
}

export const pushUrl = "/api/v1/push";

/** `isShared`: other control planes may use the same database. */
interface PushOptions {
  readonly now: () => number;
  readonly times: PushTimes;
  readonly isShared: boolean;
}

export default fp<PushOptions>(
  async (app, { now, times, isShared }) => {
    const fleet = new Fleet(now);
    const newest = () => publisher.current;
    const durations = new PushDurations<unknown>(fleet, newest, (pushed) => {
      app.metrics.pushes.observe((pushed.settledAtMs - pushed.storedAtMs) / 1_000);
      app.tracing?.pushed(pushed);
    });
    const publisher: Publisher = await Publisher.start({
      fleet,
      now,
      edition: editionNow(now()),
      readState: () => readState(app.database, now()),
      readChanges: (since) => readChanges(app.database, since, now()),
      readHead: () => readHead(app.database),
      renewEpoch: async (held) => {
        const left = await renewEpoch(app.database, { who: "control plane", atMs: now() }, held);
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
      onError: (error) => app.log.error({ err: error }, "an order about a counter did not reach all control planes"),
    });
    const sender: CounterOrderSender = isShared ? passedOrders : counterOrders;
    app.decorate("counterOrders", sender);
    app.decorate("appliedWaits", new AppliedWaits(fleet, newest));
    announceFleet(fleet);
    const peers = new Peers({
      database: app.database,
      fleet,
      publisher,
      id,
      onAsked: () => void passedOrders.carryOut(),
      onError: (error) => app.log.error({ err: error }, "cannot exchange with other control planes; trying again"),
    });
    if (isShared) peers.start();
    const gatewayLog = new GatewayLog(app.log, now);

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
      wsHandler: (socket, request) =>
        runPushSession(socket, {
          fleet,
          publisher,
          counterOrders,
          counts,
          times,
          log: request.log as FastifyBaseLogger,
          gatewayLog,
          takeActivity: app.takeActivity,
          address: request.address,
        }),
    });

    addGauge(
      app.metrics,
      "sluice_control_revision",
      "The newest revision read from the database.",
      () => publisher.current.revision,
    );
    addGauge(app.metrics, "sluice_control_gateways_connected", "Gateways connected here.", () => fleet.links().length);
    addGauge(app.metrics, "sluice_control_snapshot_bytes", "Size of the newest snapshot.", () => publisher.state.bytes);
    addAlarmGauge(app.metrics, () => alarmsOf(fleet.list(), publisher.current, now()));
    app.addHook("onClose", async () => {
      await publisher.stop();
      if (!isShared) return;
      await passedOrders.stop();
      await peers.stop();
    });
  },
  { name: "push", dependencies: ["activity", "database", "websockets", "authentication", "metrics"] },
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
