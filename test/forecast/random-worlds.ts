// Random policies of every kind that a forecast simulates, each with requests that meet it: bursts, pauses, several keys and costs.

import { Random } from "../deltas/random.ts";

export interface World {
  readonly document: Record<string, unknown>;
  readonly requests: readonly WorldRequest[];
  readonly durationUs: number;
  readonly responseBytes: number;
}

export interface WorldRequest {
  readonly atUs: number;
  /** For each part of the key. */
  readonly values: readonly string[];
  readonly cost: number | undefined;
}

const algorithms = ["token-bucket", "fixed-window", "sliding-window", "sliding-log", "leaky-bucket", "concurrency"];
const windows = ["1s", "7s", "1m", "1h", "1d"];
/** A fixed window may be one of the calendar, by the clocks of a zone. Requests stay within its length, roughly. */
const calendars = [
  { window: "hour" },
  { window: "day", timezone: "Asia/Kathmandu" },
  { window: "week", anchor: 2 },
  { window: "month", timezone: "America/New_York", anchor: 31 },
];
const windowsUs: Readonly<Record<string, number>> = {
  "1s": 1e6,
  "7s": 7e6,
  "1m": 6e7,
  "1h": 36e8,
  "1d": 864e8,
  hour: 36e8,
  day: 864e8,
  week: 6048e8,
  month: 26e11,
};
const users = ["ann", "bob", "free-1", "free-2", "vip"];
/** A Tuesday in November 2026, 13:20 UTC. */
const firstUs = 1_795_526_400_000_000;

export function randomWorld(seed: number, index: number): World {
  const random = new Random(seed + index * 7919);
  const first = algorithms[index % algorithms.length] as string;
  const limitCount = random.of([1, 1, 2, 3]);
  const picked = [first];
  // Debts are not for queues and slots, and a policy that waits is sent one request at a time.
  const isDeferred = random.below(10) === 0 && first !== "leaky-bucket" && first !== "concurrency";
  const others = isDeferred ? algorithms.slice(0, 4) : algorithms;
  while (picked.length < limitCount) picked.push(random.of(others));
  const holdsSlots = picked.includes("concurrency");
  const hasCosts = !isDeferred && random.below(3) === 0;
  const key = random.of([["header:x-user"], ["header:x-user"], ["header:x-user", "header:x-plan"], [], ["const:all"]]);
  const mostCost = hasCosts ? 2 + random.below(5) : 1 + random.below(2);
  // A limit has to hold what the most expensive request costs.
  const leastQuota = isDeferred ? 1 : mostCost;
  const limits = picked.map((algorithm, i) => randomLimit(random, algorithm, `limit-${i}`, leastQuota));
  const document: Record<string, unknown> = {
    name: `p${index}`,
    match: { paths: [`/p${index}`] },
    key,
    limits,
    mode: random.of(["enforce", "enforce", "enforce", "enforce", "enforce", "enforce", "shadow"]),
    onMissingKey: random.of(["shared", "deny", "skip"]),
  };
  if (hasCosts) document["cost"] = { from: "header:x-cost", default: 1, max: mostCost };
  else if (isDeferred) document["cost"] = { from: "response-bytes" };
  else if (random.below(4) === 0) document["cost"] = mostCost;
  const hasUsers = key[0] === "header:x-user";
  const patternOf = (user: string) => (key.length === 2 ? [user, "*"] : [user]);
  if (hasUsers && random.below(3) === 0) {
    document["overrides"] = [
      { key: patternOf("vip"), limits: [{ ...limits[0], quota: 6 + random.below(20) }] },
      {
        key: patternOf("free-*"),
        ...random.of([{ mode: "off" }, { limits: [{ ...limits[0], quota: leastQuota }] }]),
      },
    ];
  }
  if (hasUsers && random.below(5) === 0) document["exempt"] = { keys: [patternOf("bob")] };
  if (random.below(8) === 0) {
    document["schedule"] = {
      timezone: "UTC",
      windows: [{ days: ["tue"], from: "13:00", to: random.of(["13:21", "14:00"]) }],
    };
  }
  // Its counters go on: a request of the other plan has another quota, and one limit less or more.
  if (key.length === 2 && document["overrides"] === undefined && random.below(2) === 0) {
    const other = { ...limits[0], quota: leastQuota + random.below(20) };
    document["plans"] = { gold: limits, lead: random.below(2) === 0 ? [other] : [other, ...limits.slice(1)] };
    document["planBy"] = "header:x-plan";
    document["defaultPlan"] = "gold";
    delete document["limits"];
  }
  const waits = !holdsSlots && !isDeferred && random.below(10) === 0;
  if (waits) document["onLimit"] = { action: "delay", maxDelay: "2s" };
  else document["onLimit"] = randomOnLimit(random);
  const spanUs = Math.min(...limits.map((limit) => windowsUs[limit["window"] as string] ?? 6e7));
  return {
    document,
    requests: randomRequests(random, key, hasCosts, waits ? 2_000_000 : 0, spanUs),
    // Responses that last are charged beside each other, and so on top of debts.
    durationUs: holdsSlots || (isDeferred && random.below(2) === 0) ? random.of([1000, 300_000, 5_000_000]) : 0,
    responseBytes: isDeferred ? 1 + random.below(30) : 0,
  };
}

function randomLimit(random: Random, algorithm: string, name: string, least: number): Record<string, unknown> {
  const quota = least + random.below(random.of([3, 12, 40]));
  if (algorithm === "concurrency") return { name, algorithm, quota, ttl: "1h" };
  if (algorithm === "fixed-window" && random.below(3) === 0) return { name, algorithm, quota, ...random.of(calendars) };
  const limit = { name, algorithm, quota, window: random.of(windows) };
  if (algorithm === "token-bucket" && random.below(2) === 0) return { ...limit, burst: least + random.below(20) };
  if (algorithm === "token-bucket" && random.below(3) === 0) {
    const shape = random.of([{ initial: 0 }, { initial: 1, warmUp: "10s" }, { warmUp: "1m" }]);
    return { ...limit, ...shape };
  }
  if (algorithm === "leaky-bucket")
    return { ...limit, burst: least + random.below(10), maxDelay: random.of(["1s", "60s"]) };
  return limit;
}

function randomOnLimit(random: Random): Record<string, unknown> {
  switch (random.below(8)) {
    case 0:
      return { action: "tag", header: "x-over-limit: 1" };
    case 1:
      return { action: "degrade", response: { status: 203, body: "less", headers: ["x-less: 1"] } };
    case 2:
      return { action: "degrade", header: "x-over-limit: 1" };
    case 3:
      return { action: "reject", status: 503, body: "Slow down.", headers: ["x-reason: busy"] };
    case 4:
      return { action: "reject", status: 420, headers: ["x-reason: busy"] };
    default:
      return { action: "reject" };
  }
}

function randomRequests(
  random: Random,
  key: readonly string[],
  hasCosts: boolean,
  leastGapUs: number,
  spanUs: number,
): WorldRequest[] {
  const requests: WorldRequest[] = [];
  let atUs = firstUs + random.below(3600) * 1000;
  const count = 20 + random.below(21);
  for (let i = 0; i < count; i++) {
    const gapUs = random.of([0, 0, 1000, spanUs / 50, spanUs / 10, spanUs / 2, spanUs * 1.5]);
    // The shortest windows would otherwise never see their units come back in part.
    atUs += Math.max(leastGapUs, Math.floor((gapUs * (1 + random.below(1000))) / 1_000_000) * 1000);
    requests.push({
      atUs,
      values: key.map((part) => {
        if (part === "header:x-user") return random.below(15) === 0 ? "" : random.of(users);
        return part === "header:x-plan" ? random.of(["gold", "gold", "lead"]) : "";
      }),
      cost: hasCosts && random.below(4) > 0 ? random.below(8) : undefined,
    });
  }
  return requests;
}
