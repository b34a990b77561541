// What goes on at the gateways. Traffic by minute is stored, so that it outlives a restart, and what gateways report to one control
// plane is relayed to the others of the same database. What cannot be stored is not needed to serve anything: it is logged once.

import { randomUUID } from "node:crypto";
import fp from "fastify-plugin";
import { Activity, type ActivityReport, readMinute, writeMinute } from "../activity/activity.ts";
import {
  forgetRelayedActivity,
  forgetTrafficMinutes,
  readRelayedActivity,
  readTrafficMinutes,
  relayActivity,
  writeTrafficMinute,
} from "../storage/activity.ts";

declare module "fastify" {
  interface FastifyInstance {
    readonly activity: Activity;
    /** Receives what a gateway reports. */
    takeActivity(message: Parameters<Activity["take"]>[0]): void;
  }
}

/** Other control planes know of a request this much later, at most. */
const relayEveryMs = 1_000;
const minuteMs = 60_000;
const dayMs = 86_400_000;
/** When all reports about a minute have come. */
const completeAfterMs = 5_000;

/** `isShared`: other control planes may use the same database. */
export default fp<{ now: () => number; isShared: boolean }>(
  async (app, { now, isShared }) => {
    const activity = new Activity(now);
    const id = randomUUID();
    /** What the other control planes have not been told. */
    let untold: ActivityReport[] = [];
    let told = 0;
    /** The last report that was read, by control plane. */
    const read = new Map<string, number>();
    let writtenMinuteMs = minuteOf(now() - completeAfterMs);
    let round: Promise<void> | undefined;
    let isFailing = false;

    app.decorate("activity", activity);
    app.decorate("takeActivity", (message) => {
      const report = activity.take(message);
      if (isShared) untold.push(report);
    });

    for (const { atMs, traffic } of await readTrafficMinutes(app.database, now() - dayMs)) {
      readMinute(activity.traffic, atMs, traffic);
    }

    async function relay(): Promise<void> {
      if (untold.length > 0) {
        const report: ActivityReport = {
          traffic: untold.flatMap(({ traffic }) => traffic),
          keys: untold.flatMap(({ keys }) => keys),
        };
        untold = [];
        told += 1;
        await relayActivity(app.database, id, told, JSON.stringify(report));
      }
      for (const { controlPlane, number, report } of await readRelayedActivity(app.database, id)) {
        if (number <= (read.get(controlPlane) ?? 0)) continue;
        read.set(controlPlane, number);
        activity.add(JSON.parse(report) as ActivityReport);
      }
    }

    async function endMinute(): Promise<void> {
      const minute = minuteOf(now() - completeAfterMs);
      if (minute <= writtenMinuteMs) return;
      const ended = writtenMinuteMs;
      writtenMinuteMs = minute;
      activity.forget();
      const traffic = writeMinute(activity.traffic, ended);
      if (traffic !== undefined) await writeTrafficMinute(app.database, { atMs: ended, traffic });
      await forgetTrafficMinutes(app.database, minute - dayMs);
      if (isShared) await forgetRelayedActivity(app.database);
    }

    async function work(): Promise<void> {
      try {
        if (isShared) await relay();
        await endMinute();
        isFailing = false;
      } catch (error) {
        if (!isFailing) app.log.error({ err: error }, "cannot store the traffic of the gateways; trying again");
        isFailing = true;
      }
    }

    const timer = setInterval(() => {
      round ??= work().finally(() => {
        round = undefined;
      });
    }, relayEveryMs);
    timer.unref();
    app.addHook("onClose", async () => {
      clearInterval(timer);
      await round;
    });
  },
  { name: "activity", dependencies: ["database"] },
);

function minuteOf(atMs: number): number {
  return atMs - (atMs % minuteMs);
}
