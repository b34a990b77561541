// What goes on at the gateways: what they report of their traffic, here or at another control plane of the same database.

import type { WorkerActivity } from "@sluice/limiter/protocol/activity.ts";
import type { GatewayMessage } from "@sluice/limiter/protocol/push-messages.ts";
import type { KeyReport } from "./merged-keys.ts";
import { type KeyResult, TopKeysOfPolicies } from "./top-keys.ts";
import { Traffic, type TrafficCounts, trafficCounts } from "./traffic.ts";

export type ActivityMessage = Extract<GatewayMessage, { type: "activity" }>;

/** What was reported in some time, with all times by this control plane's clock. Other control planes get it as JSON. */
export interface ActivityReport {
  readonly traffic: readonly {
    readonly name: string;
    readonly fromMs: number;
    readonly toMs: number;
    readonly counts: TrafficCounts;
  }[];
  readonly keys: readonly (KeyReport & { readonly policy: string; readonly result: KeyResult })[];
}

/** A gateway reports at most what happened in the last hour. */
const longestMs = 3_600_000;

/** The name of a policy among those of all apps, and of an app. */
export function trafficName(app: string, policy = ""): string {
  return `${app}/${policy}`;
}

export class Activity {
  readonly traffic = new Traffic();
  readonly topKeys = new TopKeysOfPolicies();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Takes over a gateway's message. @returns the same for other control planes */
  take({ nowMs, workers }: ActivityMessage): ActivityReport {
    const report = this.#reportOf(workers, nowMs);
    this.add(report);
    return report;
  }

  add({ traffic, keys }: ActivityReport): void {
    const now = this.#now();
    for (const { name, fromMs, toMs, counts } of traffic) {
      this.traffic.add(name, fromMs, toMs, counts);
      this.traffic.add(trafficName(appOf(name)), fromMs, toMs, counts);
    }
    for (const { policy, result, ...report } of keys) this.topKeys.add(policy, result, now, report);
  }

  forget(): void {
    this.traffic.forget(this.#now());
    this.topKeys.forget(this.#now());
  }

  /** @param sentAtMs by the gateway's clock, which may be wrong */
  #reportOf(workers: readonly WorkerActivity[], sentAtMs: number): ActivityReport {
    const now = this.#now();
    const here = (atMs: number) => now - Math.min(Math.max(0, sentAtMs - atMs), longestMs);
    return {
      traffic: workers.flatMap(({ fromMs, toMs, policies }) =>
        policies.map(({ app, policy, allowed, ...counts }) => ({
          name: trafficName(app, policy),
          fromMs: here(fromMs),
          toMs: here(toMs),
          counts: { ...counts, admitted: allowed },
        })),
      ),
      keys: workers.flatMap(({ keys }) =>
        keys.map(({ app, policy, sinceMs: _, ...report }) => ({ policy: trafficName(app, policy), ...report })),
      ),
    };
  }
}

export function appOf(name: string): string {
  return name.slice(0, name.indexOf("/"));
}

/** Returns the traffic of the minute at `atMs` as JSON, with as many policies as are kept over a restart. */
export function writeMinute(traffic: Traffic, atMs: number): string | undefined {
  const rows = traffic
    .namesOfMinute(atMs)
    .map((name) => {
      const point = traffic.points(name, "minute", atMs, atMs + 1)[0];
      return { name, counts: trafficCounts.map((what) => point?.[what] ?? 0) };
    })
    .sort((a, b) => sumOf(b.counts) - sumOf(a.counts))
    .slice(0, mostKeptOfMinute);
  return rows.length === 0 ? undefined : JSON.stringify(rows);
}

const mostKeptOfMinute = 1_000;

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Takes over a minute that `writeMinute` wrote. */
export function readMinute(traffic: Traffic, atMs: number, text: string): void {
  for (const { name, counts } of JSON.parse(text) as { name: string; counts: number[] }[]) {
    const [admitted = 0, refused = 0, shadowRefused = 0, delayed = 0, degraded = 0] = counts;
    traffic.addMinute(name, atMs, { admitted, refused, shadowRefused, delayed, degraded });
  }
}
