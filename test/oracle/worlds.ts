// Random worlds from a seed. Numbers are small, and pauses are often those at which something changes: a unit refills, a window ends.

import fc, { type GeneratorValue } from "fast-check";
import { changesOf } from "./reference/calendar.ts";
import { isSettled } from "./reference/debts.ts";
import type {
  AlgorithmName,
  Ask,
  Check,
  Consumer,
  LimitDocument,
  Mode,
  OverrideDocument,
  PolicyDocument,
  ScheduleDocument,
  World,
  WorldEvent,
} from "./world.ts";

/** What worlds leave out, because the documents give no numbers for it or the gateway does not do it yet. A line goes when that has changed. */
export const leavesOut = {
  /** Edits that give a bucket a `warmUp` or take it away. */
  otherWarmUps: true,
  /** Debts of responses beside clocks that step, edits of limits, plans, `initial`, `warmUp` and windows of the calendar. */
  changesOfDebts: true,
  /** Costs by responses in shadow mode, in which a policy also counts the bytes of what another one refuses. */
  shadowsOfDebts: true,
  /** `degrade` with `uri` or `location`, for which nginx needs other locations. */
  otherLocations: true,
};

export interface Kinds {
  /** Scopes of policies. */
  readonly scopes: readonly ("node" | "cluster")[];
  readonly algorithms: readonly AlgorithmName[];
  /** What each world is about. Absent: any, and often nothing of all this. */
  readonly topics?: readonly Topic[];
}

export const everyTopic = ["consumers", "schedules", "checks", "restarts", "responses", "lifetimes"] as const;
export type Topic = (typeof everyTopic)[number];

export const everyAlgorithm: readonly AlgorithmName[] = [
  "token-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
  "leaky-bucket",
  "concurrency",
];

/** Returns the world of a seed: the same one each time. */
export function worldOf(seed: number, kinds: Kinds): World {
  const [world] = fc.sample(
    fc.gen().map((g) => legal(new Maker(g, kinds).world())),
    { seed, numRuns: 1 },
  );
  return world as World;
}

const keys = ["a", "b"];
const addresses = ["192.0.2.1", "198.51.100.7"];
const paths = ["/one", "/two"];
const windows = ["100ms", "1s", "3s", "10s", "1m", "7m", "1h", "1d", "30d"];
const calendars = ["hour", "day", "week", "month", "year"];
export const zones = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "Asia/Kathmandu",
  "Australia/Lord_Howe",
  "America/Sao_Paulo",
  "Africa/Casablanca",
  "Pacific/Apia",
];
const daysOfWeek = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const plans = ["free", "pro", "max", "none"];
/** Headers say no times of more than 71 years. */
const longestFillMs = 70 * 365 * 86_400_000;
const unitsMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 7 * 86_400_000,
  month: 30 * 86_400_000,
  year: 365 * 86_400_000,
  lifetime: 86_400_000,
};

/** At all boundaries of schedules, and changes of clocks, the clocks of all zones show some quarter of an hour. */
const quarterMs = 15 * 60_000;

function msOf(window: string): number {
  const [, count = "", unit = ""] = /^(\d*)([a-z]+)$/.exec(window) ?? [];
  return Number(count === "" ? 1 : count) * (unitsMs[unit] as number);
}

/** fast-check prefers the smallest and the largest numbers, of which most worlds would consist. */
function unbiased(min: number, max: number): fc.Arbitrary<number> {
  return fc.noBias(fc.integer({ min, max }));
}

class Maker {
  readonly #g: GeneratorValue;
  readonly #kinds: Kinds;
  /** Whether there are slots or responses that are charged, so that requests last. */
  readonly #waits: boolean;
  readonly #algorithms: readonly AlgorithmName[];
  readonly #topics: ReadonlySet<Topic>;
  /** Whether there are totals for ever, which only Redis counts. */
  readonly #hasLifetimes: boolean;

  constructor(g: GeneratorValue, kinds: Kinds) {
    this.#g = g;
    this.#kinds = kinds;
    this.#topics = new Set(
      kinds.topics === undefined ? everyTopic.filter(() => this.#chance(15)) : [this.#one(kinds.topics)],
    );
    this.#hasLifetimes = this.#topics.has("lifetimes") && kinds.scopes.includes("cluster");
    const others = kinds.algorithms.filter((algorithm) => algorithm !== "concurrency");
    const hasSlots = others.length === 0 || (others.length < kinds.algorithms.length && this.#chance(25));
    this.#waits = hasSlots || this.#topics.has("responses");
    const any = hasSlots ? kinds.algorithms : others;
    const lasting = any.filter((algorithm) => algorithm !== "leaky-bucket");
    this.#algorithms = this.#topics.has("restarts") && !this.#waits && lasting.length > 0 ? lasting : any;
  }

  #number(min: number, max: number): number {
    return this.#g(unbiased, min, max);
  }

  #chance(percent: number): boolean {
    return this.#number(1, 100) <= percent;
  }

  #one<Item>(items: readonly Item[]): Item {
    return items[this.#number(0, items.length - 1)] as Item;
  }

  world(): World {
    const isCluster = this.#one(this.#kinds.scopes) === "cluster";
    const count = this.#chance(60) ? 1 : this.#number(2, 3);
    const policies = Array.from({ length: count }, (_, i) => this.#policy(`p${i + 1}`, isCluster));
    const gateways = this.#chance(30) ? 2 : 1;
    const workers = this.#chance(50) ? 2 : 1;
    const events: WorldEvent[] = [];
    const length = this.#chance(50) ? this.#number(5, 60) : this.#number(60, 400);
    let policiesNow = [...policies];
    while (events.length < length) {
      const event = this.#event(policiesNow, gateways, workers);
      events.push(event);
      if (event.do === "put") {
        policiesNow = [...policiesNow.filter(({ name }) => name !== event.policy.name), event.policy];
      } else if (event.do === "delete") {
        policiesNow = policiesNow.filter(({ name }) => name !== event.policy);
      }
      if (policiesNow.length === 0) break;
    }
    const consumers = this.#topics.has("consumers")
      ? { consumers: [...keys, ...addresses].filter(() => this.#chance(60)).map((id) => this.#consumer(id, policies)) }
      : {};
    const redisAheadUs = this.#chance(50) ? 0 : this.#number(0, 999);
    return { startMs: this.#start(policies), redisAheadUs, gateways, workers, policies, ...consumers, events };
  }

  /** Some moment of these years, often shortly before a window ends. */
  #start(policies: readonly PolicyDocument[]): number {
    const some = this.#number(1_600_000_000, 2_000_000_000) * 1_000 + this.#number(0, 999);
    const windowMs = msOf(this.#one(limitsIn(policies)).window ?? "1m");
    const { schedule } = this.#one(policies);
    if (schedule !== undefined) {
      const changes = changesOf(schedule.timezone).filter(
        ([atMs]) => atMs > 1_600_000_000_000 && atMs < 2_000_000_000_000,
      );
      const changeMs =
        changes.length > 0 && this.#chance(50) ? this.#one(changes)[0] - this.#number(0, 8) * quarterMs : some;
      return Math.ceil(changeMs / quarterMs) * quarterMs - this.#number(0, 3);
    }
    if (this.#chance(50)) return some;
    return Math.ceil(some / windowMs) * windowMs - this.#number(0, 3);
  }

  #policy(name: string, isCluster: boolean): PolicyDocument {
    const isInCluster =
      this.#hasLifetimes || (this.#chance(20) ? this.#one(this.#kinds.scopes) === "cluster" : isCluster);
    const count = this.#chance(60) ? 1 : this.#number(2, 3);
    const settles = this.#settling.length > 0 && this.#chance(80);
    const limits = Array.from({ length: count }, (_, i) => this.#limit(`l${i + 1}`, settles));
    const key = this.#one([["header:x-key"], ["header:x-key"], [], ["ip", "header:x-key"], ["const:c"]]);
    const cost = settles ? { from: "response-bytes" } : this.#cost(limits);
    return {
      name,
      match: { paths: this.#one([paths, [paths[0] as string], [paths[1] as string]]) },
      key,
      limits,
      ...(isInCluster ? { scope: "cluster" as const } : {}),
      ...(cost === undefined ? {} : { cost }),
      ...(this.#chance(30) ? { priority: this.#number(-1, 1) } : {}),
      ...(this.#chance(15) ? { mode: this.#one<Mode>(["shadow", "enforce", "shadow", "off"]) } : {}),
      ...(this.#chance(30) ? { onMissingKey: this.#one(["skip", "deny", "shared"] as const) } : {}),
      ...(this.#chance(25) ? { onLimit: this.#onLimit(name) } : {}),
      ...(this.#chance(20) ? { exempt: this.#exempt(key) } : {}),
      ...(key.length > 0 && this.#chance(25) ? { overrides: this.#overrides(key, limits) } : {}),
      ...(!settles && this.#chance(key.length > 0 && this.#topics.has("consumers") ? 80 : 15)
        ? this.#plans(key, limits)
        : {}),
      ...(this.#topics.has("schedules") && this.#chance(80) ? { schedule: this.#schedule() } : {}),
    };
  }

  #schedule(): ScheduleDocument {
    const windows = Array.from({ length: this.#number(1, 2) }, () => {
      const from = this.#timeOfDay(95);
      let to = this.#timeOfDay(96);
      while (to === from) to = this.#timeOfDay(96);
      const days = daysOfWeek.filter(() => this.#chance(50));
      return { ...(days.length === 0 ? {} : { days }), from, to };
    });
    return { timezone: this.#one(zones), windows };
  }

  #timeOfDay(lastQuarter: number): string {
    const quarter = this.#number(0, lastQuarter);
    return `${`${Math.floor(quarter / 4)}`.padStart(2, "0")}:${`${(quarter % 4) * 15}`.padStart(2, "0")}`;
  }

  #consumer(id: string, policies: readonly PolicyDocument[]): Consumer {
    const overrides: Record<string, readonly LimitDocument[]> = {};
    for (const { name, plans = {} } of policies) {
      if (this.#chance(75)) continue;
      const [limit] = Object.values(plans)[0] ?? [this.#limit("l1")];
      // One of another algorithm has no effect.
      const own = this.#chance(80) ? this.#edited(limit as LimitDocument) : this.#limit("l1");
      const isKnown = own.timezone === undefined || timezonesIn(policies).has(own.timezone);
      overrides[name] = [isKnown ? own : { ...own, timezone: "UTC" }];
    }
    return { id, plan: this.#one(plans), ...(Object.keys(overrides).length === 0 ? {} : { overrides }) };
  }

  #onLimit(name: string): NonNullable<PolicyDocument["onLimit"]> {
    if (this.#chance(40)) return { action: "reject", status: this.#one([503, 403, 400, 599]) };
    if (this.#chance(50)) return { action: "tag", header: `x-over-${name}: 1` };
    if (this.#chance(50)) return { action: "degrade", header: `x-less-${name}: 1` };
    return { action: "degrade", response: { status: this.#one([203, 404, 503]), body: `less of ${name}` } };
  }

  #exempt(key: readonly string[]): NonNullable<PolicyDocument["exempt"]> {
    if (key.length === 0 || this.#chance(50))
      return { cidrs: [this.#one(["192.0.2.0/24", "198.51.100.7", "10.0.0.0/8"])] };
    return { keys: [key.map((part) => this.#pattern(part))] };
  }

  #pattern(part: string): string {
    return part === "ip" ? this.#one(["*", ...addresses]) : this.#one(["*", "a", "b*", "a", "c"]);
  }

  #overrides(key: readonly string[], limits: readonly LimitDocument[]): OverrideDocument[] {
    return Array.from({ length: this.#number(1, 2) }, () => {
      const kind = this.#number(1, 3);
      return {
        key: key.map((part) => this.#pattern(part)),
        ...(kind <= 2 ? { limits: [this.#edited(this.#one(limits))] } : {}),
        ...(kind >= 2 ? { mode: this.#one<Mode>(["enforce", "shadow", "off"]) } : {}),
      };
    });
  }

  #plans(key: readonly string[], limits: readonly LimitDocument[]): Partial<PolicyDocument> {
    const plans = {
      free: limits.map(slow),
      pro: limits.map((limit) => slow(this.#edited(limit))),
      max: [...limits.map((limit) => slow(this.#edited(limit))), this.#limit("extra")].slice(this.#number(0, 1)),
    };
    const isByConsumer = key.length > 0 && this.#topics.has("consumers") && this.#chance(85);
    const planBy = isByConsumer ? "consumer" : "header:x-plan";
    return { limits: undefined as never, plans, planBy, defaultPlan: this.#one(["free", "pro"]) };
  }

  /** A limit of the same name and algorithm, with other numbers. */
  #edited(limit: LimitDocument): LimitDocument {
    const { burst, initial, ...rest } = limit;
    const quota = this.#quota();
    const longest = Math.floor((quota * longestFillMs) / msOf(limit.window ?? "1m"));
    const next = burst === undefined ? {} : { burst: Math.min(this.#quota(), longest) };
    const capacity = next.burst ?? quota;
    return { ...rest, quota, ...next, ...(initial === undefined ? {} : { initial: Math.min(initial, capacity) }) };
  }

  #cost(limits: readonly LimitDocument[]): PolicyDocument["cost"] {
    const most = Math.min(...limits.map((limit) => Math.min(limit.quota, limit.burst ?? limit.quota)));
    if (this.#chance(60)) return undefined;
    if (this.#chance(40)) return this.#number(1, Math.min(most, 3));
    return {
      from: "header:x-cost",
      ...(this.#chance(30) ? { default: this.#number(1, Math.min(most, 2)) } : {}),
      ...(this.#chance(30) ? { max: this.#number(Math.min(most, 2), most) } : {}),
    };
  }

  #quota(): number {
    const kind = this.#number(1, 20);
    if (kind === 1) return this.#number(1, 2_147_483_648);
    if (kind <= 3) return this.#number(1, 1_000);
    return this.#number(1, 8);
  }

  /** The algorithms of a policy whose cost is that of responses; none: no policy has it. */
  get #settling(): readonly AlgorithmName[] {
    if (!this.#topics.has("responses")) return [];
    return this.#algorithms.filter((algorithm) => algorithm !== "leaky-bucket" && algorithm !== "concurrency");
  }

  /** @param settles whether its cost is that of responses */
  #limit(name: string, settles = false): LimitDocument {
    const isForEver = this.#hasLifetimes && this.#chance(50) && this.#algorithms.includes("fixed-window");
    if (isForEver && !settles) return { name, algorithm: "fixed-window", quota: this.#quota(), window: "lifetime" };
    const algorithm = this.#one(settles ? this.#settling : this.#algorithms);
    const quota = this.#quota();
    const window = this.#one(windows);
    switch (algorithm) {
      case "token-bucket": {
        const any = this.#chance(60) ? this.#quota() : undefined;
        // A bucket may not take longer than the clock can say.
        const burst = Math.min(any ?? quota, Math.floor((quota * longestFillMs) / msOf(window)));
        const shaped = !settles && this.#chance(30) && msOf(window) <= 3_600_000;
        return {
          name,
          algorithm,
          quota,
          window,
          ...(any === undefined ? {} : { burst: shaped ? Math.min(burst, 1_000) : burst }),
          ...(shaped && this.#chance(70) ? { initial: this.#number(0, Math.min(burst, 5)) } : {}),
          ...(shaped && this.#chance(60) ? { warmUp: this.#one(["1s", "10s", "7m", "1h", "1d"]) } : {}),
        };
      }
      case "leaky-bucket":
        return {
          name,
          algorithm,
          quota,
          window: this.#one(windows.slice(0, 5)),
          burst: this.#quota(),
          ...(this.#chance(50) ? { maxDelay: this.#one(["1ms", "100ms", "1s", "5s"]) } : { maxDelay: "10s" }),
        };
      case "fixed-window":
        if (settles || !this.#chance(40)) return { name, algorithm, quota, window };
        return { name, algorithm, quota, ...this.#calendar() };
      case "sliding-window": {
        const precision = this.#chance(40) ? precisionOf(window, this.#one([1, 2, 5, 20, 100])) : undefined;
        return { name, algorithm, quota, window, ...(precision === undefined ? {} : { precision }) };
      }
      case "sliding-log":
        return { name, algorithm, quota, window };
      case "concurrency":
        return { name, algorithm, quota: this.#number(1, 5), ttl: "60s" };
    }
  }

  #calendar(): Partial<LimitDocument> {
    const window = this.#one(calendars);
    const anchor = {
      week: this.#number(1, 7),
      month: this.#number(1, 31),
      year: this.#one(["02-29", "04-01", "12-31"]),
    }[window];
    return {
      window,
      timezone: this.#one(zones),
      ...(anchor === undefined || this.#chance(40) ? {} : { anchor }),
    };
  }

  #event(policies: readonly PolicyDocument[], gateways: number, workers: number): WorldEvent {
    const waits = this.#waits;
    const afterMs = this.#pause(policies);
    const gateway = this.#number(1, gateways);
    const kind = this.#number(1, 100);
    const { name, key, scope } = this.#one(policies);
    const values = key.map((part) =>
      part === "ip" ? this.#one(addresses) : part === "const:c" ? "c" : this.#one(keys),
    );
    const isOnNode = scope !== "cluster";
    if (kind <= 3) return { afterMs, do: "put", policy: this.#editedPolicy(this.#one(policies)) };
    if (kind <= 4) return { afterMs, do: "delete", policy: name };
    if (kind <= 12 && isOnNode) return { afterMs, do: "read", policy: name, key: values, gateway };
    if (kind <= 14 && isOnNode && !waits) return { afterMs, do: "reset", policy: name, key: values, gateway };
    if (kind <= 16 && isOnNode && !waits) {
      return { afterMs, do: "top-up", policy: name, key: values, gateway, units: this.#number(1, 5) };
    }
    if (kind > 60 && this.#topics.has("checks")) {
      const worker = this.#number(1, workers);
      const checks = Array.from({ length: this.#chance(60) ? 1 : this.#number(2, 3) }, () => this.#check(policies));
      return { afterMs, do: "check", checks, mode: this.#chance(75) ? "all" : "each", gateway, worker };
    }
    if (kind <= 22 && this.#topics.has("consumers")) {
      const id = this.#one([...keys, ...addresses]);
      if (this.#chance(25)) return { afterMs, do: "delete-consumer", id };
      return { afterMs, do: "put-consumer", consumer: this.#consumer(id, policies) };
    }
    if (kind <= 18 && !waits) return { afterMs, do: "step", byMs: this.#step(policies) };
    // A request that waits when nginx ends would get no answer.
    const mayEnd = !waits && !this.#algorithms.includes("leaky-bucket");
    if (kind <= 20 && mayEnd && this.#topics.has("restarts")) {
      return { afterMs, do: this.#chance(50) ? "reload" : "restart", gateway };
    }
    return this.#ask(policies, afterMs, gateway, this.#number(1, workers));
  }

  #check(policies: readonly PolicyDocument[]): Check {
    const { name, key, plans: own, planBy = "" } = this.#one(policies);
    const values = key.map((part) => {
      if (part === "const:c") return "c";
      if (part === "header:x-plan") return this.#one(plans);
      return part === "ip" ? this.#one(addresses) : this.#one(["a", "a", "a", "b", "bb", ""]);
    });
    const mayNamePlan = own !== undefined && planBy.startsWith("header:") && !key.includes(planBy);
    return {
      policy: this.#chance(98) ? name : "p9",
      key: values,
      ...(this.#chance(40) ? { cost: this.#one([1, 2, 2, 3, 5, 99]) } : {}),
      ...(mayNamePlan ? (this.#chance(60) ? { plan: this.#one(plans) } : {}) : this.#chance(1) ? { plan: "pro" } : {}),
      ...(this.#chance(20) ? { peek: true } : {}),
    };
  }

  #step(policies: readonly PolicyDocument[]): number {
    const windowMs = msOf(this.#one(limitsIn(policies)).window ?? "1m");
    const ms = this.#one([1, 10, 49, 50, 51, 999, 1_000, 1_001, 5_000, windowMs, windowMs * 2, 86_400_000]);
    return this.#chance(70) ? -ms : ms;
  }

  #ask(
    policies: readonly PolicyDocument[],
    afterMs: number,
    gateway: number,
    worker: number,
  ): Ask & { afterMs: number } {
    const headers: Record<string, string> = {};
    if (!this.#chance(5)) headers["x-key"] = this.#chance(75) ? "a" : this.#one([...keys, "bb", ""]);
    if (this.#chance(50)) headers["x-cost"] = this.#one(["1", "1", "2", "2", "3", "5", "0", "x", "01", "99"]);
    if (this.#chance(40)) headers["x-plan"] = this.#one(["free", "pro", "max", "none"]);
    const address = this.#chance(80) ? (addresses[0] as string) : this.#one(addresses);
    const bytes = this.#topics.has("responses") ? { bytes: this.#bytes(policies) } : {};
    const serviceMs = this.#waits ? this.#serviceMs() : 0;
    const path = this.#one(policies.flatMap(({ match }) => match.paths));
    return { afterMs, do: "ask", path, headers, address, gateway, worker, serviceMs, ...bytes };
  }

  #serviceMs(): number {
    // Few responses end together, because what they are charged may depend on their order.
    if (this.#topics.has("responses") && this.#chance(85)) return 10 * this.#number(0, 300) + 5;
    return this.#one([5, 15, 105, 995, 3_005]);
  }

  /** Nothing, or up to what a few windows of the smallest limit have. */
  #bytes(policies: readonly PolicyDocument[]): number {
    const limits = policies.flatMap((one) => (isSettled(one) ? [...limitsIn([one]), ...limitsOfOverrides(one)] : []));
    const least = Math.min(1_000, ...limits.map(({ quota }) => quota));
    return this.#chance(10) ? 0 : this.#number(1, this.#chance(60) ? least : 4 * least);
  }

  #editedPolicy(policy: PolicyDocument): PolicyDocument {
    if (policy.limits === undefined) return this.#withOtherPlans(policy);
    const kind = isSettled(policy) && leavesOut.changesOfDebts ? 1 : this.#number(1, 5);
    if (kind === 1) return { ...policy, mode: this.#one<Mode>(["enforce", "shadow", "off"]) };
    if (kind === 2) {
      const limits = policy.limits.map(({ name, warmUp }) => {
        const next = this.#limit(name);
        const warmsAnew = leavesOut.otherWarmUps && (warmUp !== undefined || next.warmUp !== undefined);
        return warmsAnew ? { ...next, name: `n${this.#number(1, 999)}-${name.slice(-2)}` } : next;
      });
      return { ...policy, limits, overrides: [], cost: 1 };
    }
    if (kind === 3 && policy.key.length > 0) {
      return { ...policy, overrides: this.#overrides(policy.key, policy.limits), cost: 1 };
    }
    const limits = policy.limits.map((limit) => (this.#chance(60) ? this.#edited(limit) : limit));
    return { ...policy, limits, cost: 1 };
  }

  #withOtherPlans(policy: PolicyDocument): PolicyDocument {
    const { plans = {}, planBy } = policy;
    const edited = Object.entries(plans).map(([name, limits]) => [
      name,
      limits.map((limit) => (this.#chance(60) ? slow(this.#edited(limit)) : limit)),
    ]);
    // Of plans whose buckets share a counter no more, or begin to share one, the documents do not say which counter goes on.
    const hasBuckets = limitsIn([policy]).some(({ algorithm }) => algorithm.endsWith("bucket"));
    if (hasBuckets && planBy !== "consumer") return policy;
    return { ...policy, plans: Object.fromEntries(edited), cost: 1 };
  }

  #pause(policies: readonly PolicyDocument[]): number {
    if (this.#topics.has("schedules") && this.#chance(30)) {
      return this.#one([1, 1, 2, 4, 12, 24, 48, 96]) * quarterMs + this.#number(-1, 1);
    }
    const { quota, window = "1m", precision } = this.#one(limitsIn(policies));
    const windowMs = msOf(window);
    const unitMs = Math.ceil(windowMs / quota);
    const blockMs = precision === undefined ? windowMs / 10 : msOf(precision);
    const kind = this.#number(1, 25);
    let ms = 0;
    if (kind > 20 || kind <= 7) ms = 0;
    else if (kind <= 9) ms = this.#number(1, 50);
    else if (kind <= 12) ms = unitMs * this.#number(1, 3) + this.#number(-1, 1);
    else if (kind <= 15) ms = blockMs * this.#number(1, 12) + this.#number(-1, 1);
    else if (kind <= 17) ms = windowMs * this.#number(1, 2) + this.#number(-1, 1);
    else if (kind <= 19) ms = this.#number(0, windowMs);
    else ms = this.#one([3_600_000, 3_605_000, 86_400_000, 40 * 86_400_000]);
    ms = Math.max(0, Math.floor(ms));
    // Slots end at moments at which nobody asks.
    return this.#waits ? Math.floor(Math.min(ms, 20_000) / 10) * 10 : ms;
  }
}

/** What a bucket of another plan owes is rounded to the µs, which is nothing only if a unit takes longer. */
function slow(limit: LimitDocument): LimitDocument {
  if (!limit.algorithm.endsWith("bucket") || limit.quota <= 1_000) return limit;
  return { ...limit, quota: 1_000, ...(limit.burst === undefined ? {} : { burst: Math.min(limit.burst, 1_000) }) };
}

function precisionOf(window: string, blocks: number): string | undefined {
  const ms = msOf(window) / blocks;
  return Number.isInteger(ms) ? `${ms}ms` : undefined;
}

export function limitsIn(policies: readonly PolicyDocument[]): LimitDocument[] {
  return policies.flatMap(({ limits, plans }) => [...(limits ?? []), ...Object.values(plans ?? {}).flat()]);
}

function limitsOfOverrides({ overrides = [] }: PolicyDocument): LimitDocument[] {
  return overrides.flatMap(({ limits = [] }) => limits);
}

/** The time zones by whose clocks policies go. */
export function timezonesIn(policies: readonly PolicyDocument[]): ReadonlySet<string> {
  const ofSchedules = policies.flatMap(({ schedule }) => schedule?.timezone ?? []);
  return new Set([...ofSchedules, ...limitsIn(policies).flatMap(({ timezone }) => timezone ?? [])]);
}

/** What every edit needs to reach all workers, and new workers to begin. */
const untilAppliedMs = 40;
const edits: ReadonlySet<string> = new Set(["put", "delete", "put-consumer", "delete-consumer", "reload", "restart"]);
/** What the workers of a gateway need to forget a counter together. */
const untilResetMs = 200;

/** Makes a world one that can be played, also after something was left out of it. */
export function legal(world: World): World {
  let leastMs = 0;
  const events = world.events.map((event) => {
    const afterMs = Math.max(event.afterMs, leastMs);
    leastMs = event.do === "reset" ? untilResetMs : edits.has(event.do) ? untilAppliedMs : 0;
    return event.do === "put"
      ? { ...event, afterMs, policy: withoutShadow(costsThatFit(event.policy)) }
      : { ...event, afterMs };
  });
  return { ...world, events, policies: world.policies.map(costsThatFit).map(withoutShadow) };
}

function withoutShadow(policy: PolicyDocument): PolicyDocument {
  if (!isSettled(policy) || !leavesOut.shadowsOfDebts) return policy;
  const enforced = <Item extends { readonly mode?: Mode }>(one: Item): Item =>
    one.mode === "shadow" ? { ...one, mode: "enforce" } : one;
  const { overrides } = policy;
  return enforced({ ...policy, ...(overrides === undefined ? {} : { overrides: overrides.map(enforced) }) });
}

function capacityOf(algorithm: AlgorithmName, burst: number, quota: number): number {
  if (algorithm === "leaky-bucket") return burst + 1;
  return algorithm === "token-bucket" ? burst : quota;
}

/** Whether the control plane would take all policies of a world, and its operators name keys that the policies have. */
export function isLegal({ policies, events }: World): boolean {
  const parts = new Map(policies.map(({ name, key }) => [name, key.length]));
  const edited = events.flatMap((event) => (event.do === "put" ? [event.policy] : []));
  return (
    [...policies, ...edited].every(isLegalPolicy) &&
    events.every((event) => !("key" in event) || event.key.length === parts.get(event.policy)) &&
    events.every(
      (event) =>
        event.do !== "check" ||
        event.checks.every(({ policy, key }) => key.length === (parts.get(policy) ?? key.length)),
    )
  );
}

function isLegalPolicy({ key, limits, plans, planBy, defaultPlan, overrides = [], exempt }: PolicyDocument): boolean {
  const patterns = [...overrides.map((override) => override.key), ...(exempt?.keys ?? [])];
  const hasLimits =
    plans === undefined
      ? planBy === undefined && defaultPlan === undefined && limits !== undefined && limits.length > 0
      : limits === undefined && planBy !== undefined && defaultPlan !== undefined;
  const own = new Set(
    limitsIn([{ limits, plans } as PolicyDocument]).map(({ name, algorithm }) => `${name} ${algorithm}`),
  );
  return (
    hasLimits &&
    (planBy !== "consumer" || key.length > 0) &&
    patterns.every(({ length }) => length === key.length) &&
    overrides.every(({ limits, mode }) => limits !== undefined || mode !== undefined) &&
    overrides.every((one) => (one.limits ?? []).every(({ name, algorithm }) => own.has(`${name} ${algorithm}`)))
  );
}

/** A cost must fit into every limit. */
function costsThatFit(policy: PolicyDocument): PolicyDocument {
  const { cost } = policy;
  const all = [...limitsIn([policy]), ...limitsOfOverrides(policy)];
  const most = Math.min(...all.map(({ algorithm, quota, burst }) => capacityOf(algorithm, burst ?? quota, quota)));
  if (typeof cost === "number") return { ...policy, cost: Math.min(cost, most) };
  if (cost === undefined) return policy;
  return {
    ...policy,
    cost: {
      ...cost,
      ...(cost.default === undefined ? {} : { default: Math.min(cost.default, most) }),
      ...(cost.max === undefined ? {} : { max: Math.min(cost.max, most) }),
    },
  };
}
