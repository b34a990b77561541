// The criteria of a soak. README.md gives the reason for each.

import { staleUnits } from "../faults/scenario.ts";
import { type Loss, mostAtOnce } from "../fixtures/measures/bound.ts";
import { atLeast, atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import { gatewayCount, workerCount } from "./fleet.ts";
import type { Forgetting } from "./injecting.ts";
import type { Possession } from "./possessions.ts";
import { metricNames, type Sample } from "./samples.ts";
import { authoritiesOf, type Held, type Kind, kinds, type Traffic } from "./traffic.ts";

/** A step of the schedule as it actually went; times are since the load began. */
export interface Happened {
  readonly fromMs: number;
  readonly toMs: number;
  readonly faults: readonly string[];
  /** What could not be injected, and why. */
  readonly failures: readonly string[];
}

export interface Seen {
  readonly minutes: number;
  readonly traffic: Traffic;
  readonly happened: readonly Happened[];
  readonly forgotten: readonly Forgetting[];
  readonly samples: readonly Sample[];
  readonly workersKilled: number;
}

/** After a fault, nothing counts as quiet for this long: breakers close, gateways connect, and workers that must quit end. */
export const settleMs = 4000;
/** By how much the last quarter of the time may exceed a quarter in the middle. */
const growth = { percent: 5, kb: 1024 };
/** V8 decides by itself how much garbage it leaves uncollected. */
const growthOfControlPlane = { percent: 10, kb: 8 * 1024 };
/** The least number of quiet samples. About seven are taken a minute; the rest of the time there are faults. */
const samplesAMinute = 3;
const moreSockets = 4;
/** A process has as many client connections as there were last requests under way at once. */
const moreClients = 20;

export function isQuiet(happened: readonly Happened[], fromMs: number, toMs: number): boolean {
  return happened.every((step) => step.fromMs > toMs || step.toMs + settleMs < fromMs);
}

export function assess(seen: Seen): Fact[] {
  const { minutes, traffic, happened, samples } = seen;
  return [
    atMost("faults that could not be injected", 0, happened.flatMap(({ failures }) => failures).length),
    atLeast(
      "samples taken between faults",
      Math.floor(minutes * samplesAMinute),
      samples.filter(({ quiet }) => quiet).length,
    ),
    atMost("5xx", 0, traffic.sumOf("failed")),
    atMost("requests without an answer, after a second try", 0, traffic.sumOf("unanswered")),
    ...kinds.flatMap((kind) => boundFacts(seen, kind)),
    ...slotFacts(seen),
    ...quietFacts(seen),
    ...memoryFacts(seen.samples),
    ...socketFacts(seen.samples),
    ...storeFacts(seen),
  ];
}

const shareOf = ({ limit }: Kind) => Math.max(1, Math.floor(limit / gatewayCount));

function boundFacts({ traffic, forgotten }: Seen, kind: Kind): Fact[] {
  const { name, scope, limit, ratePerSecond, forgets } = kind;
  const reported = [...(traffic.reported.get(name) ?? [])];
  const mayBeReported = scope === "node" ? [limit] : [limit, shareOf(kind)];
  const facts = [
    fact(
      `${name}: limits told`,
      mayBeReported.join(", "),
      reported.join(", "),
      reported.length > 0 && reported.every((one) => one !== undefined && mayBeReported.includes(one)),
    ),
  ];
  if (ratePerSecond === undefined) return facts;
  const losses = forgotten.map((moments): Loss => ({ ...moments, units: forgets }));
  const most = (authority: string, rate: number, lost: readonly Loss[] = []) =>
    mostAtOnce(traffic.admissions.get(authority) ?? [], rate, lost);
  const authorities = authoritiesOf(kind);
  for (const authority of authorities.redis) {
    const lost = losses.length === 0 ? "" : `, + ${forgets} for each time it forgot`;
    const seen = most(authority, ratePerSecond, losses);
    facts.push(atMost(`${name}: admitted by Redis, of ${limit} + ${ratePerSecond}/s · t${lost}`, limit, seen));
  }
  const [reportedByNode, rate] =
    scope === "node" ? [limit, ratePerSecond] : [shareOf(kind), Math.floor(ratePerSecond / gatewayCount)];
  const seenByNodes = Math.max(...authorities.nodes(reportedByNode).map((authority) => most(authority, rate)));
  const whose = scope === "node" ? "a gateway" : "a gateway's share";
  facts.push(
    atMost(
      `${name}: admitted by ${whose}, of ${reportedByNode} + ${rate}/s · t`,
      reportedByNode + staleUnits(rate),
      seenByNodes,
    ),
  );
  return facts;
}

function slotFacts({ traffic: { held }, forgotten }: Seen): Fact[] {
  const kind = kinds.find(({ name }) => name === "slots") as Kind;
  const { limit } = kind;
  const share = shareOf(kind);
  const byShare = Array.from({ length: gatewayCount }, (_, gateway) =>
    mostHeld(held.filter((one) => one.limit === share && one.gateway === gateway)),
  );
  // The holder of a slot that Redis forgot has gone within a second.
  const forgetsAt = (atMs: number) =>
    limit * forgotten.filter(({ fromMs, toMs }) => fromMs <= atMs && toMs >= atMs - 1000).length;
  const byRedis = mostHeld(
    held.filter((one) => one.limit === limit),
    forgetsAt,
  );
  return [
    atMost(`slots: held at once by Redis, + ${limit} for each time it forgot`, limit, byRedis),
    atMost("slots: held at once by a gateway's share", share, Math.max(...byShare)),
  ];
}

/** @param allowedAt returns how many more may be held at a moment @returns the most held at one moment beyond these */
function mostHeld(held: readonly Held[], allowedAt: (atMs: number) => number = () => 0): number {
  const changes = held.flatMap(({ fromMs, toMs }) => [
    { atMs: fromMs, by: 1 },
    { atMs: toMs, by: -1 },
  ]);
  // At the same moment, ends come before beginnings.
  changes.sort((a, b) => a.atMs - b.atMs || a.by - b.by);
  let [most, now] = [0, 0];
  for (const { atMs, by } of changes) {
    now += by;
    if (now > most) most = Math.max(most, now - allowedAt(atMs));
  }
  return most;
}

/** Between faults Redis decides, and as much is admitted as the limits allow. */
function quietFacts({ traffic, happened }: Seen): Fact[] {
  let [admitted, byRedis] = [0, 0];
  let least = { percent: Number.POSITIVE_INFINITY, name: "" };
  for (const kind of kinds.filter(({ name }) => name !== "random")) {
    const quiet = traffic
      .secondsOf(kind)
      .filter((_, second) => second > 2 && isQuiet(happened, second * 1000, (second + 1) * 1000));
    const whole = quiet.reduce((sum, second) => sum + second.admitted, 0);
    if (kind.scope === "cluster") {
      byRedis += whole;
      admitted += whole + quiet.reduce((sum, second) => sum + second.admittedByShare, 0);
    }
    if (kind.ratePerSecond === undefined) continue;
    const counters = kind.scope === "node" ? gatewayCount : 1;
    const percent = (whole / (kind.ratePerSecond * counters * quiet.length)) * 100;
    if (percent < least.percent) least = { percent, name: kind.name };
  }
  return [
    atLeast("between faults: admitted by Redis", 90, (byRedis / admitted) * 100, " %"),
    atLeast(`between faults: admitted of what limits allow, least (${least.name})`, 80, least.percent, " %"),
  ];
}

interface Quarters {
  readonly before: number;
  readonly last: number;
}

/** @param quarter 1 is the second, 2 the third @returns medians of this quarter of the quiet samples and of the last quarter */
export function quartersOf<Of>(all: readonly Of[], quarter: number, value: (of: Of) => number): Quarters {
  const part = (index: number) =>
    median(all.slice(Math.floor((all.length * index) / 4), Math.ceil((all.length * (index + 1)) / 4)).map(value));
  return { before: part(quarter), last: part(3) };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const mb = (kb: number) => `${(kb / 1024).toFixed(1)} MB`;

export function flatMemory(what: string, { before, last }: Quarters, { percent, kb } = growth): Fact {
  const most = before * (1 + percent / 100) + kb;
  return fact(what, `≤ ${mb(most)} (${mb(before)} + ${percent} % + ${mb(kb)})`, mb(last), last <= most);
}

export function flatCount(what: string, { before, last }: Quarters, more: number): Fact {
  return fact(what, `≤ ${before} + ${more}`, `${last}`, last <= before + more);
}

function rolesOf(samples: readonly Sample[]): [role: string, held: readonly Possession[], quarter: number][] {
  const quiet = samples.filter((sample) => sample.quiet);
  const roles = [...new Set(quiet.flatMap((sample) => Object.keys(sample.roles)))];
  return roles.map((role) => [
    role,
    quiet.flatMap((sample) => sample.roles[role] ?? []),
    // Until then, the control plane was restarted again and again.
    role === "control plane" ? 2 : 1,
  ]);
}

/** These workers live as long as the run; the other gateway's are killed and reloaded, and may be of any age. */
const oldWorkers = `gateway ${gatewayCount}, workers`;

function memoryFacts(samples: readonly Sample[]): Fact[] {
  const roles = rolesOf(samples).map(([role, held, quarter]) => ({
    role,
    memory: quartersOf(held, quarter, ({ memoryKb }) => memoryKb),
  }));
  const ofOldKb = roles.find(({ role }) => role === oldWorkers)?.memory.before ?? 0;
  return roles.map(({ role, memory }) => {
    // Young workers grow until they are as large as old ones, and no larger.
    const before = role.endsWith("workers") ? Math.max(memory.before, ofOldKb) : memory.before;
    return flatMemory(
      `memory of ${role}`,
      { ...memory, before },
      role === "control plane" ? growthOfControlPlane : growth,
    );
  });
}

function socketFacts(samples: readonly Sample[]): Fact[] {
  return rolesOf(samples).flatMap(([role, held, quarter]) => {
    const own = quartersOf(held, quarter, ({ servers, others }) => servers + others);
    const facts = [flatCount(`sockets and files of ${role}`, own, moreSockets)];
    const clients = quartersOf(held, quarter, (one) => one.clients);
    if (!role.endsWith("master")) facts.push(flatCount(`connections of clients at ${role}`, clients, moreClients));
    if (role.endsWith("workers")) {
      const left = Math.max(...held.map(({ processes }) => processes));
      facts.push(atMost(`processes of ${role}`, workerCount, left));
    }
    return facts;
  });
}

/** Facts about Redis and the shared dicts. */
function storeFacts({ samples, workersKilled }: Seen): Fact[] {
  const redis = samples.flatMap((sample) => sample.redis ?? []);
  const metrics = samples.flatMap((sample) => (sample.metrics === undefined ? [] : [sample.metrics]));
  const [freeBytes, , ...mustNotGrow] = metricNames;
  const used = (of: readonly Readonly<Record<string, number>>[]) =>
    of.reduce((sum, gateway) => sum + 64 * 1024 - (gateway[freeBytes] as number) / 1024, 0);
  const sumOf = (name: string) => (metrics.at(-1) ?? []).reduce((sum, gateway) => sum + (gateway[name] as number), 0);
  const keys = quartersOf(redis, 1, (one) => one.keys);
  return [
    flatMemory(
      "used_memory of Redis",
      quartersOf(redis, 1, ({ usedMemoryKb }) => usedMemoryKb),
    ),
    flatCount("keys in Redis", keys, Math.ceil(keys.before / 10) + 20),
    flatCount(
      "connections at Redis",
      quartersOf(redis, 1, ({ clients }) => clients),
      moreSockets,
    ),
    flatMemory("shared dicts of counters", quartersOf(metrics, 1, used)),
    // A lock whose worker was killed times out, once for each worker that waits for it.
    ...mustNotGrow.map((name) =>
      atMost(name, name === "sluice_lock_timeouts_total" ? workersKilled * workerCount : 0, sumOf(name)),
    ),
  ];
}
