// Control planes take what gateways report of their traffic. They store it by minute, so that it outlives a restart, and sum it up by hour before
// the minutes are forgotten. One control plane relays its reports to the others of the same database. If a report cannot be stored, requests are
// served all the same, and the log says it once.

import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import fp from "fastify-plugin";
import { Activity, type ActivityMessage, cutMinute, type KeptMinute, mergeMinutes } from "../activity/activity.ts";
import { hoursKeptSinceMs, hoursStoredBeforeMs, sumMinutes } from "../activity/hours.ts";
import { type Line, turnsOf } from "../activity/report-parts.ts";
import { type LeftOut, UntoldReports } from "../activity/untold-reports.ts";
import {
  forgetOldestHour,
  forgetRelayedActivity,
  forgetToldActivity,
  noteHeard,
  readAppCreations,
  readPolicyNames,
  readRelayedActivity,
  readTrafficMinutes,
  relayActivity,
  relayedAtOnce,
  sumOldestHour,
  writeTrafficMinute,
} from "../storage/activity.ts";

declare module "fastify" {
  interface FastifyInstance {
    readonly activity: Activity;
    /** How long after a second began all is known of it, unless a gateway is slow. */
    readonly trafficCompleteAfterMs: number;
    /** Receives what a gateway reports. */
    takeActivity(gateway: string, message: ActivityMessage): void;
  }
}

/** Other control planes know of a request two of these later, at most. */
const workEveryMs = 1_000;
const minuteMs = 60_000;
const reportedAfterMs = 3_000;
const mostMinutesAtOnce = 20;
/** A control plane that was silent for so long has nothing in the database that was not read. */
const forgetPeerAfterMs = 60_000;

const sayAgainAfterMs = 60_000;

/** What others read in the database. */
interface Relayed {
  /** When it was written, by the clock of the control plane that wrote it, as all times in the lines. */
  readonly nowMs: number;
  /** Whether traffic of the time before was not relayed. */
  readonly isPartial: boolean;
  /** Whether keys of the time before were not relayed. */
  readonly lacksKeys: boolean;
  readonly lines: readonly Line[];
}

/** `isShared`: other control planes may use the same database. */
export default fp<{ now: () => number; isShared: boolean }>(
  async (app, { now, isShared }) => {
    const activity = new Activity(now);
    const id = randomUUID();
    const startedAtMs = performance.now();
    /** What the other control planes have not been told. */
    const untold = new UntoldReports();
    let told = 0;
    /** Traffic was lost since a row was written. */
    let isPartial = false;
    let lacksKeys = false;
    let saidLeftOutAtMs = Number.NEGATIVE_INFINITY;
    /** The last report that was read, by control plane. */
    const read = new Map<string, { readonly number: number; readonly atMs: number }>();
    let forgottenMs = minuteOf(now());
    let round: Promise<void> | undefined;
    let isFailing = false;

    const trafficCompleteAfterMs = reportedAfterMs + (isShared ? 2 * workEveryMs : 0);
    app.decorate("activity", activity);
    app.decorate("trafficCompleteAfterMs", trafficCompleteAfterMs);
    app.decorate("takeActivity", (gateway, message) => {
      const report = activity.take(message);
      if (isShared) untold.add(gateway, report);
    });

    for await (const { atMs, traffic } of readTrafficMinutes(app.database)) {
      activity.readMinute(atMs, JSON.parse(traffic) as KeptMinute);
    }

    /** Writes what others read. What cannot be written is lost, and the next row says so. */
    async function tellOthers(): Promise<void> {
      const { rows, leftOut } = untold.take();
      if (leftOut !== undefined) sayLeftOut(leftOut);
      isPartial ||= leftOut !== undefined && leftOut.traffic > 0;
      lacksKeys ||= leftOut !== undefined && leftOut.keys > 0;
      for (const lines of rows) {
        told += 1;
        const row = `{"nowMs":${now()},"isPartial":${isPartial},"lacksKeys":${lacksKeys},"lines":${lines}}`;
        [isPartial, lacksKeys] = [true, true];
        await relayActivity(app.database, id, told, row);
        [isPartial, lacksKeys] = [false, false];
      }
      await forgetToldActivity(app.database, id);
    }

    function sayLeftOut(leftOut: LeftOut): void {
      if (performance.now() - saidLeftOutAtMs < sayAgainAfterMs) return;
      saidLeftOutAtMs = performance.now();
      app.log.warn(leftOut, "gateways report more than other control planes are told of");
    }

    async function hearOthers(): Promise<void> {
      for (let isMore = true; isMore; ) {
        const numbers = new Map([...read].map(([other, { number }]) => [other, number]));
        const rows = await readRelayedActivity(app.database, id, numbers);
        for (const { controlPlane, number, report, ageMs } of rows) {
          read.set(controlPlane, { number, atMs: performance.now() });
          // The minutes that this control plane read at its start may already contain an older report.
          if (ageMs <= performance.now() - startedAtMs) await addRelayed(JSON.parse(report) as Relayed, ageMs);
        }
        isMore = rows.length === relayedAtOnce;
      }
      for (const [other, { atMs }] of read) if (performance.now() - atMs > forgetPeerAfterMs) read.delete(other);
    }

    /** Takes as much at a time as a gateway reports in a message. Requests are served meanwhile. */
    async function addRelayed({ nowMs, isPartial, lacksKeys, lines }: Relayed, ageMs: number): Promise<void> {
      const aheadMs = now() - ageMs - nowMs;
      const at = (theirMs: number) => Math.min(theirMs + aheadMs, now());
      if (isPartial) activity.noteLost(at(nowMs));
      if (lacksKeys) activity.keys.noteLost("minute", now());
      for (const { traffic, keys } of turnsOf(lines)) {
        await setImmediate();
        const here = traffic.map(({ fromMs, toMs, ...rest }) => ({ fromMs: at(fromMs), toMs: at(toMs), ...rest }));
        activity.add({ traffic: here, keys }, false);
      }
    }

    /** Stores the minutes before `beforeMs` of which there is something new. */
    async function keepMinutes(beforeMs: number): Promise<void> {
      const minutes = activity.takeChangedMinutes(beforeMs, mostMinutesAtOnce);
      let existing: ReadonlySet<string> | undefined;
      for (const [i, atMs] of minutes.entries()) {
        try {
          existing ??= await readPolicyNames(app.database);
          await keepMinute(atMs, existing);
        } catch (error) {
          // It comes last, so that it does not keep others from being stored.
          activity.noteChanged([...minutes.slice(i + 1), atMs]);
          throw error;
        }
      }
    }

    async function keepMinute(atMs: number, existing: ReadonlySet<string>): Promise<void> {
      const own = cutMinute(await activity.minute(atMs), existing);
      // A report that began in the minute counts as a whole in the one after it.
      if (own.length === 0) return;
      await writeTrafficMinute(app.database, atMs, (known) => {
        const all = known === undefined ? own : mergeMinutes(JSON.parse(known) as KeptMinute, own);
        return JSON.stringify(cutMinute(all, existing));
      });
    }

    /** Sums up one hour at a time, so that others wait for the database only shortly. */
    async function keepHours(): Promise<void> {
      const untilMs = hoursStoredBeforeMs(now());
      if (untilMs === activity.summedUntilMs) return;
      const existing = {
        names: await readPolicyNames(app.database),
        createdAtMs: await readAppCreations(app.database),
      };
      const isMore = await sumOldestHour(app.database, untilMs, async (minutes) => {
        const rows = await sumMinutes(minutes, existing);
        return rows.map((row) => ({ name: row.name, traffic: JSON.stringify(row) }));
      });
      if (isMore || (await forgetOldestHour(app.database, hoursKeptSinceMs(now())))) return;
      await noteHeard(app.database, untilMs);
      activity.noteSummed(untilMs);
    }

    async function forgetOld(minute: number): Promise<void> {
      if (minute === forgottenMs) return;
      forgottenMs = minute;
      activity.forget();
      if (isShared) await forgetRelayedActivity(app.database);
    }

    async function work(beforeMs: number): Promise<void> {
      const ofOthers = isShared ? [tellOthers, hearOthers] : [];
      const errors: unknown[] = [];
      for (const step of [...ofOthers, () => keepMinutes(beforeMs), keepHours, () => forgetOld(minuteOf(now()))]) {
        // One that fails does not keep the others from their work.
        await step().catch((error: unknown) => errors.push(error));
      }
      const [err] = errors;
      if (err !== undefined && !isFailing) {
        app.log.error({ err }, "cannot store the traffic of the gateways; trying again");
      }
      isFailing = err !== undefined;
    }

    const timer = setInterval(() => {
      round ??= work(minuteOf(now() - trafficCompleteAfterMs)).finally(() => {
        round = undefined;
      });
    }, workEveryMs);
    timer.unref();
    app.addHook("onClose", async () => {
      clearInterval(timer);
      await round;
      // A database that did not answer would delay the stop.
      if (!isFailing) await work(now() + minuteMs);
    });
  },
  { name: "activity", dependencies: ["database"] },
);

function minuteOf(atMs: number): number {
  return atMs - (atMs % minuteMs);
}
