// Traffic by hour, for a month. The minutes of about a day are in memory until they are summed up; what is older is in the database, summed up by name.

import { setImmediate } from "node:timers/promises";
import { type Activity, type CountedTraffic, cutMinute, type KeptMinute } from "./activity.ts";
import { appOf } from "./top-keys.ts";
import {
  countedSinceMs,
  keptSinceMs,
  namedCounts,
  type TrafficCounts,
  type TrafficPoint,
  trafficCounts,
} from "./traffic.ts";

const hourMs = 3_600_000;
const hoursKeptMs = 31 * 86_400_000;

/** Which policies and apps exist. */
export interface Existing {
  /** Policies as "app/policy", and apps as "app/". */
  readonly names: ReadonlySet<string>;
  /** When each app was created, in ms since 1970. */
  readonly createdAtMs: ReadonlyMap<string, number>;
}

/** The hour of an app or a policy, as it is stored. */
export interface StoredHour {
  readonly atMs: number;
  readonly name: string;
  /** A row of the hour, as JSON. */
  readonly traffic: string;
}

/** A row of an hour to which minutes are added. */
interface Sum {
  readonly name: string;
  readonly counts: number[];
  isCut?: boolean;
}

/** Returns the beginning of the first hour that is kept. */
export function hoursKeptSinceMs(nowMs: number): number {
  return hourOf(nowMs - hoursKeptMs);
}

/** Returns the beginning of the first hour of an answer. @param askedMs since when hours are asked for */
export function hoursSinceMs(askedMs: number, nowMs: number): number {
  return Math.max(hourOf(askedMs), hoursKeptSinceMs(nowMs));
}

/** Returns the time before which hours are to be only in the database. */
export function hoursStoredBeforeMs(nowMs: number): number {
  return hourOf(keptSinceMs("minute", nowMs));
}

/**
 * Returns the sums of an hour: of the apps and policies that exist, of as many as are kept of a minute. What was counted before an app was
 * created belongs to a deleted app of the same name. Requests are served meanwhile.
 */
export async function sumMinutes(
  minutes: AsyncIterable<{ readonly atMs: number; readonly traffic: string }>,
  { names, createdAtMs }: Existing,
): Promise<KeptMinute> {
  const sums = new Map<string, Sum>();
  for await (const { atMs, traffic } of minutes) {
    await setImmediate();
    for (const { name, counts, isCut } of JSON.parse(traffic) as KeptMinute) {
      if (!names.has(name) || atMs < countedSinceMs(createdAtMs.get(appOf(name)) ?? 0, "minute")) continue;
      const sum = sums.get(name) ?? { name, counts: trafficCounts.map(() => 0) };
      for (const [i, count] of counts.entries()) sum.counts[i] = (sum.counts[i] ?? 0) + count;
      if (isCut === true) sum.isCut = true;
      sums.set(name, sum);
    }
  }
  await setImmediate();
  return cutMinute([...sums.values()], names);
}

/** Returns the names of the stored hours that `hoursOf` needs. Those of the app say whether some of its policies were left out. */
export function namesOfHours(asked: CountedTraffic): string[] {
  return [...new Set([nameOf({ app: asked.app }), nameOf(asked)])];
}

/**
 * Returns the hours from `sinceMs` on, the beginning of an hour, in which something was decided, in order, and whether all of them are known.
 * @param stored the hours of `namesOfHours` from `sinceMs` on, and since when hours were stored
 * @param createdAtMs of the app
 */
export function hoursOf(
  activity: Activity,
  asked: CountedTraffic,
  { sinceMs, createdAtMs, nowMs }: { readonly sinceMs: number; readonly createdAtMs: number; readonly nowMs: number },
  { hours: stored, knownSinceMs }: { readonly hours: readonly StoredHour[]; readonly knownSinceMs: number },
): { readonly isComplete: boolean; readonly points: TrafficPoint[] } {
  const firstMs = Math.max(sinceMs, countedSinceMs(createdAtMs, "minute"));
  const hours = new Map<number, TrafficPoint>();
  for (const minute of activity.points(asked, "minute", firstMs, nowMs + 1)) {
    const atMs = hourOf(minute.atMs);
    hours.set(atMs, { atMs, ...added(minute, hours.get(atMs)) });
  }
  let isComplete = knownSinceMs <= firstMs;
  for (const { atMs, name, traffic } of stored) {
    if (atMs < hourOf(firstMs)) continue;
    const { counts, isCut = false } = JSON.parse(traffic) as KeptMinute[number];
    if (name === nameOf(asked)) hours.set(atMs, { atMs, ...namedCounts(counts) });
    else isComplete &&= !isCut;
  }
  return {
    isComplete: isComplete && activity.isComplete(asked, "minute", Math.max(sinceMs, activity.summedUntilMs)),
    points: [...hours.values()].sort((a, b) => a.atMs - b.atMs),
  };
}

function nameOf({ app, policy = "" }: CountedTraffic): string {
  return `${app}/${policy}`;
}

function added(one: TrafficCounts, other: TrafficCounts | undefined): TrafficCounts {
  return namedCounts(trafficCounts.map((what) => one[what] + (other?.[what] ?? 0)));
}

function hourOf(atMs: number): number {
  return atMs - (atMs % hourMs);
}
