// What goes on at the gateways: what they report of their traffic, here or at another control plane of the same database.

import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { WorkerActivity } from "@sluice/limiter/protocol/activity.ts";
import type { GatewayMessage } from "@sluice/limiter/protocol/push-messages.ts";
import type { KeyReport } from "./merged-keys.ts";
import { appOf, type KeyResult, type TopKeys, TopKeysOfPolicies, type Window } from "./top-keys.ts";
import { namedCounts, type Step, Traffic, type TrafficCounts, type TrafficPoint, trafficCounts } from "./traffic.ts";

export type ActivityMessage = Extract<GatewayMessage, { type: "activity" }>;

/** What was reported in some time, with all times by this control plane's clock. Other control planes get it as JSON. */
export interface ActivityReport {
  readonly traffic: readonly {
    readonly app: string;
    readonly policy: string;
    readonly fromMs: number;
    readonly toMs: number;
    readonly counts: TrafficCounts;
  }[];
  readonly keys: readonly (KeyReport & {
    readonly app: string;
    readonly policy: string;
    /** The parts of the policy's key. */
    readonly key: readonly string[];
    readonly result: KeyResult;
  })[];
}

/** Whose keys are asked for. */
export interface CountedPolicy {
  readonly app: string;
  readonly policy: string;
  /** Keys that were counted while the policy had another key are not among its keys: their values mean something else. */
  readonly key: readonly string[];
}

/** Of which time keys are asked for, and how many. */
export interface KeyQuery {
  readonly window: Window;
  readonly limit: number;
  /** Since when the app exists: what was counted before belongs to another app, which had the name. */
  readonly sinceMs: number;
}

/** Whose traffic is asked for; without a policy, that of all policies of the app together. */
export interface CountedTraffic {
  readonly app: string;
  readonly policy?: string | undefined;
}

/** Those with most of `by` are the busiest. */
export interface BusyQuery {
  readonly by: KeyResult;
  readonly limit: number;
}

/** What a policy or an app did. */
export interface Busy {
  readonly name: string;
  readonly counts: TrafficCounts;
  /** Those in which something was decided, in order. */
  readonly minutes: readonly TrafficPoint[];
}

/** The traffic of a minute: of an app by "app/", of a policy by "app/policy", in the order of `trafficCounts`. */
export type KeptMinute = readonly {
  readonly name: string;
  readonly counts: readonly number[];
  /** Of an app: there was no room for all of its policies. */
  readonly isCut?: boolean;
}[];

/** A gateway reports at most what happened in the last day. */
const longestMs = 86_400_000;
const minuteMs = 60_000;
/** Together, chunks take 60 MB at most. Those of policies never take the room of those of apps. */
const mostChunksOfPolicies = 20_000;
const mostChunksOfApps = 5_000;
/** Besides the sums of apps. */
const mostPoliciesOfMinute = 1_000;
/** Of a policy, as JSON in names. */
const longestKey = 100;
/** Names whose minute is read without a pause, which takes a millisecond. */
const namesAtOnce = 500;

export class Activity {
  readonly keys = new TopKeysOfPolicies();
  readonly #ofPolicies = new Traffic(mostChunksOfPolicies);
  readonly #ofApps = new Traffic(mostChunksOfApps);
  /** The minutes about which something was reported since they were last taken. */
  readonly #changedMinutes = new Set<number>();
  /** By app: the end of the last minute of which not all policies were kept over a restart. */
  readonly #cutUntilMs = new Map<string, number>();
  #summedUntilMs = 0;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
    this.keys.noteUnknown("minute", now());
  }

  /** Takes over a gateway's message. @returns the same for other control planes */
  take({ nowMs, workers }: ActivityMessage): ActivityReport {
    const report = this.#reportOf(workers, nowMs);
    this.add(report);
    return report;
  }

  /** @param isOwn a gateway has reported it here, and no other control plane has relayed it */
  add({ traffic, keys }: ActivityReport, isOwn = true): void {
    const now = this.#now();
    for (const { app, policy, fromMs, toMs, counts } of traffic) {
      this.#ofPolicies.add(`${app}/${policy}`, fromMs, toMs, counts);
      this.#ofApps.add(app, fromMs, toMs, counts);
    }
    this.#noteMinutesOf(traffic);
    for (const { app, policy, key, result, ...report } of keys) {
      this.keys.add(nameOfKeys({ app, policy, key }), result, now, report, isOwn);
    }
  }

  /** Traffic of before has not come here. */
  noteLost(untilMs: number): void {
    this.#ofPolicies.noteLost(untilMs);
    this.#ofApps.noteLost(untilMs);
  }

  /** Returns the seconds or minutes from `fromMs` until before `untilMs` in which something was decided, in order. */
  points({ app, policy }: CountedTraffic, step: Step, fromMs: number, untilMs: number): TrafficPoint[] {
    if (policy === undefined) return this.#ofApps.points(app, step, fromMs, untilMs);
    return this.#ofPolicies.points(`${app}/${policy}`, step, fromMs, untilMs);
  }

  /** Whether nothing that happened since then had to give way to what happened later. */
  isComplete({ app, policy }: CountedTraffic, step: Step, sinceMs: number): boolean {
    if (policy !== undefined && sinceMs < (this.#cutUntilMs.get(app) ?? 0)) return false;
    return (policy === undefined ? this.#ofApps : this.#ofPolicies).isComplete(step, sinceMs);
  }

  /** Returns the busiest policies of an app from the minute of `fromMs` on, the busiest first. Policies that were deleted meanwhile are among them. */
  busiestPolicies(app: string, fromMs: number, query: BusyQuery): Busy[] {
    const beginning = `${app}/`;
    const names = this.#ofPolicies.names(beginning);
    return this.#busiest(this.#ofPolicies, names, () => fromMs, query).map((busy) => ({
      ...busy,
      name: busy.name.slice(beginning.length),
    }));
  }

  /** Returns the names of all apps of which something was counted. Some may be deleted. */
  countedApps(): string[] {
    return this.#ofApps.names("");
  }

  /**
   * Returns the busiest apps, the busiest first. Apps that were deleted meanwhile are among them.
   * @param fromMsOf from the minute of which time on an app counts; undefined: not at all
   */
  busiestApps(fromMsOf: (app: string) => number | undefined, query: BusyQuery): Busy[] {
    return this.#busiest(this.#ofApps, this.countedApps(), fromMsOf, query);
  }

  #busiest(
    traffic: Traffic,
    names: readonly string[],
    fromMsOf: (name: string) => number | undefined,
    { by, limit }: BusyQuery,
  ): Busy[] {
    const untilMs = this.#now() + 1;
    return names
      .flatMap((name) => {
        const fromMs = fromMsOf(name);
        if (fromMs === undefined) return [];
        const sinceMs = minuteOf(fromMs);
        return { name, sinceMs, counts: traffic.sum(name, "minute", sinceMs, untilMs) };
      })
      .filter(({ counts }) => isSomething(counts))
      .sort((a, b) => b.counts[by] - a.counts[by] || (a.name < b.name ? -1 : 1))
      .slice(0, limit)
      .map(({ name, sinceMs, counts }) => ({
        name,
        counts,
        minutes: traffic.points(name, "minute", sinceMs, untilMs),
      }));
  }

  topKeys(policy: CountedPolicy, result: KeyResult, { window, limit, sinceMs }: KeyQuery): TopKeys {
    return this.keys.top(nameOfKeys(policy), result, window, this.#now(), limit, sinceMs);
  }

  /**
   * Returns the minutes before this time about which something was reported since they were last taken. Those that have waited longest come
   * first: whoever reports about a day again and again does not keep other minutes from being taken.
   * @param most how many to take at most
   */
  takeChangedMinutes(beforeMs: number, most: number): number[] {
    const taken = [...this.#changedMinutes].filter((atMs) => atMs < beforeMs).slice(0, most);
    for (const atMs of taken) this.#changedMinutes.delete(atMs);
    return taken;
  }

  /** Minutes that were taken are to be taken again. */
  noteChanged(minutes: readonly number[]): void {
    for (const atMs of minutes) this.#changedMinutes.add(atMs);
  }

  /** Returns the traffic of the minute at `atMs`, as it is kept over a restart. Requests are served meanwhile. */
  async minute(atMs: number): Promise<KeptMinute> {
    const rows: KeptMinute[number][] = [];
    for (const traffic of [this.#ofApps, this.#ofPolicies]) {
      for (const [i, name] of [...traffic.namesInMinute(atMs)].entries()) {
        if (i % namesAtOnce === namesAtOnce - 1) await setImmediate();
        const counts = traffic.sum(name, "minute", atMs, atMs + 1);
        if (!isSomething(counts)) continue;
        rows.push({
          name: traffic === this.#ofApps ? `${name}/` : name,
          counts: trafficCounts.map((what) => counts[what]),
        });
      }
    }
    return rows;
  }

  /** Takes over a minute that was kept. */
  readMinute(atMs: number, rows: KeptMinute): void {
    for (const { name, counts, isCut } of rows) {
      if (isCut === true) this.#cutUntilMs.set(appOf(name), atMs + minuteMs);
      const ofApp = name.endsWith("/");
      const traffic = ofApp ? this.#ofApps : this.#ofPolicies;
      traffic.addMinute(ofApp ? name.slice(0, -1) : name, atMs, namedCounts(counts));
    }
  }

  /** All minutes before it are summed up by hour in the database, as far as is known. */
  get summedUntilMs(): number {
    return this.#summedUntilMs;
  }

  noteSummed(untilMs: number): void {
    this.#summedUntilMs = untilMs;
  }

  /** Forgets what is older than is kept. Minutes stay until they are summed up. */
  forget(): void {
    const now = this.#now();
    this.#ofPolicies.forget(now, this.#summedUntilMs);
    this.#ofApps.forget(now, this.#summedUntilMs);
    this.keys.forget(now);
    for (const atMs of this.#changedMinutes) if (atMs < now - longestMs) this.#changedMinutes.delete(atMs);
  }

  /** Notes each minute once: thousands of policies may be reported with the same day. */
  #noteMinutesOf(traffic: ActivityReport["traffic"]): void {
    let notedMs = Number.NEGATIVE_INFINITY;
    const counted = traffic.filter(({ counts }) => isSomething(counts));
    for (const { fromMs, toMs } of counted.sort((a, b) => a.fromMs - b.fromMs)) {
      for (let atMs = Math.max(minuteOf(fromMs), notedMs + minuteMs); atMs <= toMs; atMs += minuteMs) {
        this.#changedMinutes.add(atMs);
        notedMs = atMs;
      }
    }
  }

  /** @param sentAtMs by the gateway's clock, which may be wrong */
  #reportOf(workers: readonly WorkerActivity[], sentAtMs: number): ActivityReport {
    const now = this.#now();
    const here = (atMs: number) => now - Math.min(Math.max(0, sentAtMs - atMs), longestMs);
    return {
      traffic: workers.flatMap(({ toMs, policies }) =>
        policies.map(({ app, policy, fromMs, allowed, ...counts }) => ({
          app,
          policy,
          fromMs: here(fromMs),
          toMs: here(toMs),
          counts: { ...counts, admitted: allowed },
        })),
      ),
      keys: workers.flatMap(({ keys }) => keys),
    };
  }
}

/**
 * Puts two records of a minute together. Each control plane knows a part of what all gateways reported, or all of it: of two counts,
 * the larger one is nearer to the truth.
 */
export function mergeMinutes(one: KeptMinute, other: KeptMinute): KeptMinute {
  const merged = new Map(one.map((row) => [row.name, row]));
  for (const row of other) {
    const known = merged.get(row.name);
    const counts = row.counts.map((count, i) => Math.max(count, known?.counts[i] ?? 0));
    const isCut = row.isCut === true || known?.isCut === true;
    merged.set(row.name, { name: row.name, counts, ...(isCut ? { isCut } : {}) });
  }
  return [...merged.values()];
}

/**
 * Returns what is kept of a minute over a restart. If there are too many policies, those that do not exist are left out, and each app has
 * the same share: its policies with most traffic. What an app does not need of its share, others get.
 *
 * @param existing names of policies as in the rows, and of apps with a "/"
 */
export function cutMinute(rows: KeptMinute, existing: ReadonlySet<string>): KeptMinute {
  if (rows.length <= mostPoliciesOfMinute) return rows;
  const known = rows.filter(({ name }) => existing.has(name));
  const ranks = new Map<string, number>();
  const ranked = busiestOfEachApp(known.filter(({ name }) => !name.endsWith("/")))
    .sort((a, b) => b.sum - a.sum)
    .map(({ app, row }) => {
      const rank = ranks.get(app) ?? 0;
      ranks.set(app, rank + 1);
      return { row, rank };
    })
    .sort((a, b) => a.rank - b.rank);
  const cut = new Set(ranked.slice(mostPoliciesOfMinute).map(({ row }) => appOf(row.name)));
  const ofApps = known
    .filter(({ name }) => name.endsWith("/"))
    .map((row) => (cut.has(appOf(row.name)) ? { ...row, isCut: true } : row));
  return [...ofApps, ...ranked.slice(0, mostPoliciesOfMinute).map(({ row }) => row)];
}

interface PolicyOfMinute {
  readonly app: string;
  readonly row: KeptMinute[number];
  readonly sum: number;
}

/**
 * Returns the policies with most traffic of each app: all that may find room in a minute, and of each app of which more are left out, one at least of
 * those. To sort all others would take most of the time.
 */
function busiestOfEachApp(rows: KeptMinute): PolicyOfMinute[] {
  const policies = rows.map((row) => {
    return { app: appOf(row.name), row, sum: row.counts.reduce((total, count) => total + count, 0) };
  });
  const sums = new Map<string, number[]>();
  for (const { app, sum } of policies) {
    const ofApp = sums.get(app);
    if (ofApp === undefined) sums.set(app, [sum]);
    else ofApp.push(sum);
  }
  // The first `share` of each app find room, another one of some apps, and no further one.
  const most = shareOfEach([...sums.values()].map(({ length }) => length)) + 2;
  const least = new Map([...sums].map(([app, ofApp]) => [app, Float64Array.from(ofApp).sort().at(-most) ?? 0]));
  return policies.filter(({ app, sum }) => sum >= (least.get(app) ?? 0));
}

/** Returns how many of each app find room in a minute, if all have the same share. @param sizes how many policies each app has */
function shareOfEach(sizes: readonly number[]): number {
  let room = mostPoliciesOfMinute;
  for (const [i, size] of sizes.toSorted((a, b) => a - b).entries()) {
    const share = Math.floor(room / (sizes.length - i));
    if (size > share) return share;
    room -= size;
  }
  return mostPoliciesOfMinute;
}

function isSomething(counts: TrafficCounts): boolean {
  return trafficCounts.some((what) => counts[what] > 0);
}

function minuteOf(atMs: number): number {
  return atMs - (atMs % minuteMs);
}

function nameOfKeys({ app, policy, key }: CountedPolicy): string {
  const text = JSON.stringify(key);
  // A row of the database has the name.
  return `${app}/${policy} ${text.length > longestKey ? createHash("sha256").update(text).digest("hex") : text}`;
}
