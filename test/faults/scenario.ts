// Common to all faults: a steady load of more than is admitted runs before the fault, during it and after it, on real gateways
// with a control plane; and certain facts must hold throughout.

import { setTimeout as sleep } from "node:timers/promises";
import { Load, type Served } from "../fixtures/clients/load.ts";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { type Loss, mostAtOnce } from "../fixtures/measures/bound.ts";
import { atLeast, atMost, type Fact, fact, figure } from "../fixtures/measures/fact.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { System, type SystemOptions } from "../fixtures/servers/system.ts";
import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";
import type { Observation, Window } from "./fault.ts";

/** The gateways' deadline for Redis, which is also what they may add to a request's latency. */
export const deadlineMs = Number(process.env["SLUICE_REDIS_DEADLINE_MS"] ?? 200);
/** nginx's clock advances once in a turn of its event loop, and each worker has its own. */
const staleClockMs = 5;
/** A timer of nginx is late by up to this on a machine that other processes share. */
const lateTimerMs = 5;
/** Silence is checked every 5 ms, by a clock that stands still while the worker does. */
const lateNoticeMs = 20;

/** A share refills from the moment when Redis last replied, and a gateway needs it somewhat later. */
const unheardSeconds = 0.4 + deadlineMs / 1000;

const beforeMs = 2000;
const besideRatePerSecond = 150;
/** The load goes on this long after the recovery, to show that it lasts. */
const afterMs = 1000;
const windowMs = 100;
const policyName = "under-fault";

export interface Limit {
  /** Units a second, and units of the burst. */
  readonly quota: number;
  /** The window, if it is not a second. */
  readonly window?: string;
  readonly keys: readonly string[];
  readonly ratePerSecond: number;
}

export const oneKey: Limit = { quota: 100, keys: ["all"], ratePerSecond: 300 };

/** What is under load: gateways, with one control plane or several. */
export interface Observed {
  readonly gateways: readonly { readonly url: string }[];
  /** Sends a request to a control plane's API as an administrator. */
  api(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Puts a policy of app `default` and waits until every gateway has applied it. */
  put(document: { name: string } & Record<string, unknown>): Promise<void>;
  untilConnected(): Promise<void>;
}

export interface Plan {
  readonly system: Observed;
  readonly limit?: Limit;
  readonly scope?: "cluster" | "node";
  /** What decides during the fault: the common counter, or each node's share; `cutOff` limits this to these gateways. */
  readonly decides: "counter" | "shares" | "either";
  readonly cutOff?: readonly number[];
  /** How many gateways share a limit while Redis is away, as they know it. Absent: those under load. */
  readonly sharers?: { readonly least: number; readonly most: number };
  /**
   * Makes the fault, and ends it.
   *
   * @param beside the load that meets no policy
   * @returns what counters may have forgotten meanwhile
   */
  inject(load: Load, beside: Load): Promise<readonly Loss[] | undefined>;
  /** The longest time until the common counter decides again. Absent: it never ceased to decide. */
  readonly recoversWithinMs?: number;
  /** "beginning" for a fault that ends by what we do about it. */
  readonly recoversFrom?: "beginning" | "end";
  /** By how much p99 may grow, if it is not the deadline. */
  readonly mostAddedMs?: number;
  /** Whether connections may break, as those of a killed process do. */
  readonly breaks?: boolean;
  /** Further facts that are checked afterwards. */
  moreFacts?(seen: Phases): Promise<readonly Fact[]> | readonly Fact[];
}

export interface Phases {
  readonly served: readonly Served[];
  readonly beginMs: number;
  readonly endMs: number;
}

/** Starts a system whose gateways have the deadline of this run. */
export async function startSystem(stack: AsyncDisposableStack, options: SystemOptions): Promise<System> {
  const system = await System.start({
    ...options,
    env: { SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}`, ...options.env },
  });
  stack.defer(() => system.stop());
  return system;
}

/** Starts a Redis for one fault. */
export async function startRedis(stack: AsyncDisposableStack, args: readonly string[] = []): Promise<RedisServer> {
  const redis = new RedisServer(await freePort(), {}, args);
  stack.defer(() => redis.stop("SIGKILL"));
  await redis.start();
  return redis;
}

/** Starts two gateways that reach a Redis through a proxy. */
export async function startBehindProxy(stack: AsyncDisposableStack, env: NodeJS.ProcessEnv = {}) {
  const redis = await startRedis(stack);
  const proxy = await TcpProxy.start(redis.port);
  stack.defer(() => proxy.refuse());
  const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: proxy.url, ...env } });
  return { proxy, redis, system };
}

/** Plays a fault. @returns what was observed */
export async function observe(stack: AsyncDisposableStack, plan: Plan): Promise<Observation> {
  const { system, limit = oneKey, scope = "cluster" } = plan;
  await system.put({
    name: policyName,
    scope,
    match: { paths: [`/${policyName}`] },
    key: ["header:x-key"],
    limits: [limitDocument(limit)],
  });
  const load = new Load(
    system.gateways.map(({ url }) => `${url}/${policyName}`),
    limit.ratePerSecond,
    limit.keys,
  );
  // These requests match no policy, at the same gateways at the same time: the time that they take is the machine's.
  const beside = new Load(
    system.gateways.map(({ url }) => `${url}/beside`),
    besideRatePerSecond,
    ["none"],
  );
  for (const each of [load, beside]) {
    stack.defer(() => each.stop());
    each.start();
  }
  await sleep(beforeMs);
  const brokenBefore = load.broken;
  const beginMs = performance.now();
  const losses = (await plan.inject(load, beside)) ?? [];
  const endMs = performance.now();
  const fromMs = plan.recoversFrom === "beginning" ? beginMs : endMs;
  const recoveredMs = await untilRecovered(plan, limit, load, endMs);
  await sleep(afterMs);
  const configuration = await configurationKept(system);
  await load.stop();
  await beside.stop();

  const { served } = load;
  const all = [...served, ...beside.served];
  const phases = { served, beginMs, endMs };
  const overMs = recoveredMs ?? performance.now();
  const affected = plan.cutOff ?? system.gateways.map((_, gateway) => gateway);
  const added = (percent: number, fromMs: number, toMs: number) => {
    const [limited, unlimited] = [load, beside].map((each) =>
      percentile(
        within(each.served, fromMs, toMs).filter(({ gateway }) => affected.includes(gateway)),
        percent,
      ),
    ) as [number, number];
    return Math.max(0, limited - unlimited);
  };
  const facts = [
    atMost("5xx", 0, all.filter(({ status }) => status >= 500).length),
    atMost("requests without an answer", 0, all.filter(({ status }) => status === 0).length),
    // For a window that does not end, the fault checks the count itself.
    ...(limit.window === undefined ? boundFacts(plan, limit, phases, losses) : []),
    // This holds until the recovery, compared with requests without a policy.
    atMost(
      plan.mostAddedMs === undefined ? "p99 added (the deadline, noticed late)" : "p99 added (two round trips)",
      (plan.mostAddedMs ?? deadlineMs) + lateNoticeMs,
      added(99, beginMs, overMs),
      " ms",
    ),
    // Once the breaker is open, only its probes wait for Redis.
    ...(plan.decides === "shares"
      ? [atMost("p90 added in its second half", lateTimerMs, added(90, (beginMs + endMs) / 2, endMs), " ms")]
      : []),
    ...decisionFacts(plan, limit, phases, affected),
    configuration,
  ];
  if (plan.breaks !== true) facts.push(atMost("connections of clients that broke", 0, load.broken - brokenBefore));
  if (plan.recoversWithinMs !== undefined) facts.push(recoveryFact(plan.recoversWithinMs, recoveredMs, fromMs));
  facts.push(...((await plan.moreFacts?.(phases)) ?? []));
  return {
    facts,
    recoveredAfterMs: plan.recoversWithinMs === undefined ? undefined : difference(recoveredMs, fromMs),
    windows: windowsOf(served, limit, beginMs),
  };
}

function limitDocument({ quota, window }: Limit): object {
  if (window !== undefined) return { algorithm: "fixed-window", quota, window };
  return { algorithm: "token-bucket", quota, window: "1s" };
}

/** Returns whether the common counter decided this request. */
function byCounter({ limit: reported }: Served, { quota }: Limit): boolean {
  return reported === quota;
}

const admitted = ({ status }: Served) => status >= 200 && status < 300;

const within = (served: readonly Served[], fromMs: number, toMs: number) =>
  served.filter(({ sentAtMs }) => sentAtMs >= fromMs && sentAtMs < toMs);

/** @returns the end of the first tenth of a second in which the common counter has decided again at each gateway */
async function untilRecovered(
  { system, recoversWithinMs }: Plan,
  limit: Limit,
  load: Load,
  endMs: number,
): Promise<number | undefined> {
  if (recoversWithinMs === undefined) return endMs;
  const giveUpMs = endMs + 2 * recoversWithinMs;
  while (performance.now() < giveUpMs) {
    await sleep(windowMs / 4);
    const firsts = system.gateways.map(
      (_, gateway) =>
        load.served.find(
          (one) => one.gateway === gateway && one.sentAtMs >= endMs && admitted(one) && byCounter(one, limit),
        )?.answeredAtMs,
    );
    if (firsts.every((first) => first !== undefined)) {
      return endMs + Math.ceil((Math.max(...firsts) - endMs) / windowMs) * windowMs;
    }
  }
  return undefined;
}

function recoveryFact(withinMs: number, recoveredMs: number | undefined, fromMs: number): Fact {
  const seen = difference(recoveredMs, fromMs);
  const what = "until Redis decides again at every gateway";
  if (seen === undefined) return fact(what, `≤ ${withinMs} ms`, "it did not", false);
  return atMost(what, withinMs, seen, " ms");
}

function difference(momentMs: number | undefined, fromMs: number): number | undefined {
  return momentMs === undefined ? undefined : Math.round(momentMs - fromMs);
}

/** Facts that no counter alone, common or of a share, admits more than its bucket, whenever it decides. */
function boundFacts(
  { system, scope, decides, sharers }: Plan,
  limit: Limit,
  { served, beginMs }: Phases,
  losses: readonly Loss[],
): Fact[] {
  const { quota, keys } = limit;
  const admissions = served.filter(admitted);
  const most = (of: readonly Served[], ratePerSecond: number, lost: readonly Loss[] = []) =>
    Math.max(
      ...keys.map((key) =>
        mostAtOnce(
          of.filter((one) => one.key === key),
          ratePerSecond,
          lost,
        ),
      ),
    );
  const whole = admissions.filter((one) => byCounter(one, limit));
  const where = scope === "node" ? "in shared memory" : "by Redis";
  const stale = scope === "node" ? staleUnits(quota) : 0;
  const lossText = losses.length === 0 ? "" : `, + ${losses[0]?.units} for each time it forgot`;
  const facts = [
    atMost(`admitted ${where}, of ${quota} + ${quota}/s · t${lossText}`, quota + stale, most(whole, quota, losses)),
  ];
  const { least, most: mostSharers } = sharers ?? { least: system.gateways.length, most: system.gateways.length };
  const [smallest, share] = [Math.floor(quota / mostSharers), Math.floor(quota / least)];
  const shared = admissions.filter((one) => !byCounter(one, limit));
  if (shared.length === 0) return facts;
  const reported = new Set(shared.map(({ limit: limitReported }) => limitReported));
  const isShare = (told: number | undefined) => told !== undefined && told >= smallest && told <= share;
  facts.push(
    fact(
      "limit told where Redis did not decide",
      smallest === share ? `${share}` : `${smallest} to ${share}`,
      [...reported].join(", "),
      [...reported].every(isShare),
    ),
  );
  const mostOfAny = (fromMs: number) =>
    Math.max(
      ...system.gateways.map((_, gateway) =>
        most(
          shared.filter((one) => one.gateway === gateway && one.sentAtMs >= fromMs),
          share,
        ),
      ),
    );
  facts.push(
    atMost(`admitted by a gateway's share, of ${share} + ${share}/s · t`, share + staleUnits(share), mostOfAny(0)),
  );
  if (decides === "shares") {
    // By then gateways know that Redis has just refused these keys, so no share starts full.
    const atOnce = share * unheardSeconds;
    facts.push(
      atMost(`since the fault began, of ${atOnce} + ${share}/s · t`, atOnce + staleUnits(share), mostOfAny(beginMs)),
    );
  }
  return facts;
}

export function staleUnits(ratePerSecond: number): number {
  return (ratePerSecond * staleClockMs) / 1000;
}

/** Facts about what decided requests during the fault, and that requests were still admitted. */
function decisionFacts(
  { decides, recoversFrom }: Plan,
  limit: Limit,
  { served, beginMs, endMs }: Phases,
  affected: readonly number[],
): Fact[] {
  // Within this time, the fault takes effect.
  const settledMs = beginMs + Math.min(500, (endMs - beginMs) / 2);
  const during = within(served, settledMs, endMs).filter(admitted);
  const here = during.filter(({ gateway }) => affected.includes(gateway));
  const expected = here.filter((one) => byCounter(one, limit) === (decides === "counter")).length;
  const percent = here.length === 0 ? 0 : (expected / here.length) * 100;
  const who = decides === "counter" ? "by the counter of all" : "by each gateway's share";
  const facts: Fact[] = [];
  if (decides !== "either") {
    // A machine with other work also misses a deadline now and then, and the fault's end is noticed a little late. If the fault
    // ends by what we do about it, Redis has been back for part of it, with a whole burst that nobody had used.
    const mostOf = decides === "counter" ? 97 : recoversFrom === "beginning" ? 70 : 90;
    facts.push(atLeast(`admitted ${who} meanwhile`, mostOf, percent, " %"));
  }
  const mayAdmit = (Math.min(limit.ratePerSecond, limit.quota * limit.keys.length) * (endMs - settledMs)) / 1000;
  facts.push(atLeast("admitted meanwhile, of what the limit allows", 80, (during.length / mayAdmit) * 100, " %"));
  return facts;
}

/** Checks that every gateway has the control plane's revision, and takes the next. */
export async function configurationKept(system: Observed): Promise<Fact> {
  const what = "configuration";
  const expected = "kept, next change applied";
  try {
    await system.untilConnected();
    await until("every gateway has the last revision", async () => {
      const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body) as {
        gateways: { connected: boolean; lag: number }[];
      };
      const connected = gateways.filter((gateway) => gateway.connected);
      return connected.length === system.gateways.length && connected.every(({ lag }) => lag === 0);
    });
    await system.put({
      name: "behind-the-fault",
      match: { paths: ["/behind-the-fault"] },
      limits: [{ algorithm: "fixed-window", quota: 7, window: "366d" }],
    });
    for (const { url } of system.gateways) {
      const { headers } = await ask(`${url}/behind-the-fault`);
      if (headers["x-ratelimit-limit"] !== "7") return fact(what, expected, "a gateway has not the next change", false);
    }
    return fact(what, expected, expected, true);
  } catch (error) {
    return fact(what, expected, (error as Error).message, false);
  }
}

function p99(served: readonly Served[]): number {
  return percentile(served, 99);
}

/** @returns this percentile of the time to an answer, in milliseconds */
function percentile(served: readonly Served[], percent: number): number {
  const took = served.map(({ sentAtMs, answeredAtMs }) => answeredAtMs - sentAtMs).sort((a, b) => a - b);
  return took[Math.ceil((took.length * percent) / 100) - 1] ?? 0;
}

function windowsOf(served: readonly Served[], limit: Limit, beginMs: number): Window[] {
  const groups = Map.groupBy(served, ({ sentAtMs }) => Math.floor((sentAtMs - beginMs) / windowMs));
  return [...groups].map(([index, group]) => {
    const through = group.filter(admitted);
    return {
      atMs: index * windowMs,
      sent: group.length,
      admitted: through.length,
      admittedByShare: through.filter((one) => !byCounter(one, limit)).length,
      refused: group.filter(({ status }) => status === 429).length,
      failed: group.filter(({ status }) => status === 0 || status >= 500).length,
      p99Ms: Number(figure(p99(group))),
    };
  });
}
