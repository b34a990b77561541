// Four gateways saturate one leased limit: nothing is admitted beyond it, little of it goes unused, and Redis is called
// seldom. The simulation is deterministic: requests come evenly spaced, and messages take 0.1–1 ms each way.

import { describe, expect, test } from "vitest";
import * as charging from "../../../limiter/src/algorithms/charge-all.ts";
import type { Limit } from "../../../limiter/src/algorithms/limit.ts";
import * as memory from "../../../limiter/src/algorithms/memory-ring.ts";
import * as rates from "../../../limiter/src/algorithms/rate.ts";
import * as holder from "../../../limiter/src/lease/holder.ts";
import * as ledger from "../../../limiter/src/lease/ledger.ts";
import { Gateway, observerOf, Redis, seeded } from "./lease-world.ts";

const product = { ...rates, ...memory, ...charging, ...holder, ...ledger };
const second = 1_000_000;
const startUs = 1_700_000_000_000_000;
const tickUs = 5_000;

/** Requests of one gateway, evenly spaced, from one moment until another. */
interface Burst {
  readonly perSecond: number;
  readonly fromUs: number;
  readonly untilUs: number;
}

interface Outcome {
  admitted: number;
  /** Units admitted by each gateway, since the reset if there is one. */
  admittedBy: number[];
  excess: number;
  /** Exchanges and exact decisions of the busiest gateway per second, after the first second. */
  callsPerSecond: number;
  /** Requests that were refused although Redis would have admitted them at that moment. */
  refusedEarly: number;
  asked: number;
}

type Event = () => void;

/**
 * @param demands requests per second at each gateway, all the time or in a burst
 * @param resetAtUs when an operator resets the counter, in µs from the beginning
 */
function simulate(
  limit: Limit,
  demands: readonly (number | Burst)[],
  seconds: number,
  resetAtUs = Number.POSITIVE_INFINITY,
): Outcome {
  const random = seeded(7);
  const redis = new Redis(product, [limit], holder.leaseParameters);
  let observer = observerOf(limit);
  const queue = new Queue();
  const outcome: Outcome = {
    admitted: 0,
    admittedBy: demands.map(() => 0),
    excess: Number.NEGATIVE_INFINITY,
    callsPerSecond: 0,
    refusedEarly: 0,
    asked: 0,
  };
  const endUs = seconds * second;
  let nowUs = 0;
  const later = (us: number, event: Event) => queue.push(nowUs + us, event);
  const wayUs = () => 100 + random(900);
  const admit = (number: number) => {
    outcome.admitted += 1;
    outcome.admittedBy[number] = (outcome.admittedBy[number] as number) + 1;
    outcome.excess = Math.max(outcome.excess, observer.spend(startUs + nowUs, 1));
  };
  const calls = demands.map(() => 0);
  if (resetAtUs < endUs) {
    later(resetAtUs, () => {
      redis.forget();
      observer = observerOf(limit);
      outcome.admittedBy.fill(0);
    });
  }

  for (const [number, demand] of demands.entries()) {
    const { perSecond, fromUs, untilUs } =
      typeof demand === "number" ? { perSecond: demand, fromUs: 0, untilUs: endUs } : demand;
    const gateway = new Gateway(product, `node-${number}`);
    // The node's clock differs from Redis' clock.
    const aheadUs = 5_000_000 + random(second);
    const clock = () => nowUs + aheadUs;
    const count = () => {
      if (nowUs >= second) calls[number] = (calls[number] as number) + 1;
    };
    let waiting: Event[] = [];
    let refusedUntilUs = 0;

    const exchange = () => {
      const plan = gateway.plan(redis.parameters, clock());
      if (!plan.exchanges) return;
      count();
      const message = gateway.send(clock(), plan);
      later(wayUs(), () => {
        const answer = redis.exchange(startUs + nowUs, message);
        later(wayUs(), () => {
          if (answer === undefined) throw new Error("overtaken, though messages keep their order");
          gateway.acceptAnswer(clock(), answer);
          const woken = waiting;
          waiting = [];
          for (const request of woken) request();
        });
      });
    };
    const serve = (again: boolean) => {
      const spent = gateway.spend(clock(), 1, false);
      if (again) gateway.asked -= 1;
      if (spent) admit(number);
      exchange();
      if (spent) return;
      const way = holder.wayFor(gateway.holder, 1, clock());
      if (way === "ask" && gateway.holder.waiting === 1 && !again) {
        waiting.push(() => serve(true));
      } else if (way === "exact") {
        if (clock() < refusedUntilUs) return;
        count();
        later(wayUs(), () => {
          if (redis.charge(startUs + nowUs, 1)) {
            later(wayUs(), () => admit(number));
          } else {
            const counter = redis.counters[0] as (typeof redis.counters)[number];
            const decision = { allowed: false, limit: 0, remaining: 0, retryAfterUs: 0, resetAfterUs: 0, delayUs: 0 };
            rates.describe(counter.rate, counter, memory.memoryRing, startUs + nowUs, 1, false, decision);
            refusedUntilUs = clock() + decision.retryAfterUs;
          }
        });
      } else if (isLeft(redis, startUs + nowUs)) {
        outcome.refusedEarly += 1;
      }
    };
    const every = (us: number, event: Event) => {
      const repeat = () => {
        event();
        if (nowUs + us < endUs) later(us, repeat);
      };
      later(random(us), repeat);
    };
    if (resetAtUs < endUs) {
      // The order reaches the gateway a little later.
      later(resetAtUs + 5_000, () => {
        holder.forgetRefusal(gateway.holder);
        refusedUntilUs = 0;
      });
    }
    if (perSecond > 0) {
      every(Math.floor(second / perSecond), () => {
        if (nowUs < fromUs || nowUs >= untilUs) return;
        outcome.asked += 1;
        serve(false);
      });
    }
    every(tickUs, exchange);
  }

  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    nowUs = next.atUs;
    next.event();
  }
  outcome.callsPerSecond = Math.max(...calls) / (seconds - 1);
  return outcome;
}

function isLeft(redis: Redis, nowUs: number): boolean {
  return redis.counters.every((counter) => rates.admits(counter.rate, counter, memory.memoryRing, nowUs, 1));
}

/** The events that are due, in order: a binary heap. */
class Queue {
  readonly #heap: { atUs: number; order: number; event: Event }[] = [];
  #pushed = 0;

  push(atUs: number, event: Event): void {
    const heap = this.#heap;
    const entry = { atUs, order: this.#pushed++, event };
    let at = heap.length;
    heap.push(entry);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (isBefore(heap[parent], entry)) break;
      heap[at] = heap[parent] as (typeof heap)[number];
      at = parent;
    }
    heap[at] = entry;
  }

  pop(): { atUs: number; event: Event } | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = at * 2 + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1], heap[child])) child += 1;
      if (isBefore(last, heap[child])) break;
      heap[at] = heap[child] as (typeof heap)[number];
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

interface Due {
  readonly atUs: number;
  readonly order: number;
}

function isBefore(a: Due | undefined, b: Due | undefined): boolean {
  const first = a as Due;
  const second = b as Due;
  return first.atUs < second.atUs || (first.atUs === second.atUs && first.order < second.order);
}

const limit = (algorithm: Limit["algorithm"], quota: number, windowUs: number, burst = quota): Limit => ({
  name: "limit",
  algorithm,
  quota,
  windowUs,
  burst,
  precisionUs: algorithm === "sliding-window" ? windowUs / 10 : 0,
});

const minute = 60 * second;
const cases: readonly [string, Limit, readonly number[]][] = [
  ["token-bucket 400/s", limit("token-bucket", 400, second), [200, 200, 200, 200]],
  ["token-bucket 400/s, flood", limit("token-bucket", 400, second), [3000, 3000, 3000, 3000]],
  ["token-bucket 400/s, uneven", limit("token-bucket", 400, second), [1000, 30, 5, 0]],
  ["token-bucket 400/s, the least burst", limit("token-bucket", 400, second, 200), [1080, 120]],
  [
    "token-bucket 400/s, the least burst, hardly over, at eight",
    limit("token-bucket", 400, second, 200),
    [270, 21, 21, 21, 21, 21, 21, 21],
  ],
  ["token-bucket 5000/s", limit("token-bucket", 5000, second), [2500, 2500, 2500, 2500]],
  ["fixed-window 1000/s", limit("fixed-window", 1000, second), [500, 500, 500, 500]],
  ["fixed-window 1000/s, hardly over", limit("fixed-window", 1000, second), [270, 260, 260, 260]],
  ["fixed-window 120/min", limit("fixed-window", 120, minute), [20, 20, 20, 20]],
  ["fixed-window 120/min, flood", limit("fixed-window", 120, minute), [1000, 1000, 1000, 1000]],
  ["sliding-window 1000/10s", limit("sliding-window", 1000, 10 * second), [500, 500, 500, 500]],
  ["sliding-window 2000/10s, over four blocks", limit("sliding-window", 2000, 10 * second), [150, 150, 150, 150]],
  ["sliding-window 2000/5s", limit("sliding-window", 2000, 5 * second), [200, 200, 200, 200]],
];

/** @returns what a single Redis admits if it decides every request */
function admittedExactly(limit: Limit, demands: readonly number[], seconds: number): number {
  const redis = new Redis(product, [limit], holder.leaseParameters);
  const requests = demands.reduce((sum, demand) => sum + demand, 0) * seconds;
  let admitted = 0;
  for (let request = 0; request < requests; request++) {
    if (redis.charge(startUs + Math.floor((request * seconds * second) / requests), 1)) admitted += 1;
  }
  return admitted;
}

for (const [name, held, demands] of cases) {
  test(`${name}: nothing beyond the limit, at most 2 % unused, at most 25 calls a second`, () => {
    const seconds = held.windowUs === minute ? 120 : 20;
    const outcome = simulate(held, demands, seconds);
    const unused = 1 - outcome.admitted / admittedExactly(held, demands, seconds);
    expect(outcome.excess).toBeLessThanOrEqual(0);
    expect(unused).toBeLessThanOrEqual(0.02);
    expect(outcome.callsPerSecond).toBeLessThanOrEqual(25);
  });
}

for (const [name, held, demands] of [
  ["token-bucket 5000/s", limit("token-bucket", 5000, second), [1200, 1200, 1200, 1200]],
  ["token-bucket 400/s", limit("token-bucket", 400, second), [150, 150, 50, 10]],
  ["fixed-window 1000/s", limit("fixed-window", 1000, second), [240, 240, 240, 240]],
  ["sliding-window 2000/5s", limit("sliding-window", 2000, 5 * second), [85, 85, 85, 85]],
] as const) {
  test(`${name}: requests within the limit are admitted`, () => {
    const outcome = simulate(held, demands, 20);
    expect(outcome.excess).toBeLessThanOrEqual(0);
    expect(outcome.admitted / outcome.asked).toBeGreaterThanOrEqual(0.998);
  });
}

describe("after a reset by hand", () => {
  const hour = limit("fixed-window", 3000, 3600 * second);
  const flood = (fromUs: number, untilUs: number): Burst => ({ perSecond: 20_000, fromUs, untilUs });

  for (const gapMs of [0, 10, 50, 100, 200, 500, 1000]) {
    test(`${gapMs} ms after its flood, an idle gateway holds nothing that another needs`, () => {
      const resetAtUs = second + gapMs * 1000;
      const another = flood(resetAtUs + 10_000, resetAtUs + second);
      const outcome = simulate(hour, [flood(0, second), another], 4, resetAtUs);
      expect(outcome.excess).toBe(0);
      expect(outcome.admittedBy).toEqual([0, 3000]);
    });
  }
});

describe("a gateway", () => {
  const ms = 1000;
  /** Clients requested 1000 units from it within 10 ms, and then none. */
  function askedBefore(answer: Partial<ledger.LeaseAnswer>): Gateway {
    const gateway = new Gateway(product, "node");
    gateway.asked = 500;
    planAt(gateway, 90 * ms);
    gateway.asked = 1000;
    gateway.send(100 * ms, planAt(gateway, 100 * ms));
    const nothing = { seq: 1, grant: 0, honoured: 0, durationUs: 300 * ms, retryAfterUs: 0, elsewhere: 0 };
    expect(gateway.acceptAnswer(101 * ms, { ...nothing, ...answer })).toBe(true);
    return gateway;
  }
  const planAt = (gateway: Gateway, nowUs: number) => gateway.plan(holder.leaseParameters, nowUs);

  test("that had no request for a horizon wants no lease, however many it had before", () => {
    const gateway = askedBefore({ retryAfterUs: 3600 * second });
    for (let atMs = 105; atMs < 195; atMs += 5) planAt(gateway, atMs * ms);
    holder.forgetRefusal(gateway.holder);
    expect(planAt(gateway, 195 * ms).want).toBeGreaterThan(100);
    expect(planAt(gateway, 200 * ms)).toEqual({ exchanges: false, back: 0, want: 0 });
    expect(gateway.holder.demand).toBeGreaterThan(100);
  });

  test("that had no request for two horizons returns what it holds", () => {
    const gateway = askedBefore({ grant: 1000 });
    gateway.cell = 50;
    expect(planAt(gateway, 290 * ms).back).toBe(0);
    expect(gateway.holder.demand).toBeGreaterThan(50);
    expect(planAt(gateway, 300 * ms)).toEqual({ exchanges: true, back: 50, want: 0 });
  });

  test("that was refused tries again within a horizon while others hold units, and within two seconds while they hold none", () => {
    for (const [elsewhere, againMs] of [
      [1, 201],
      [0, 2101],
    ] as const) {
      const gateway = askedBefore({ retryAfterUs: 3600 * second, elsewhere });
      expect(holder.wayFor(gateway.holder, 1, againMs * ms - 1)).toBe("refuse");
      expect(holder.wayFor(gateway.holder, 1, againMs * ms)).toBe("ask");
      expect(holder.refusedUntil(gateway.holder)).toBe(101 * ms + 3600 * second);
    }
  });
});

test("a gateway that is alone is granted at most half of what is left, but the last units whole", () => {
  const redis = new Redis(product, [limit("fixed-window", 300, 3600 * second)], holder.leaseParameters);
  const grants: (number | undefined)[] = [];
  for (let seq = 1; seq < 8; seq++) {
    const message = { holder: "node", seq, acknowledged: seq - 1, kept: 0, back: 0, want: 1000 };
    grants.push(redis.exchange(startUs + seq, message)?.grant);
  }
  expect(grants).toEqual([150, 75, 37, 32, 6, 0, 0]);
});

describe("a limit can be leased", () => {
  test("if a bucket has room for what refills in five horizons", () => {
    expect(isLeasable(limit("token-bucket", 5000, second, 2500))).toBe(true);
    expect(isLeasable(limit("token-bucket", 5000, second, 2499))).toBe(false);
  });

  test("if a window, or the block of a sliding one, is five horizons long", () => {
    expect(isLeasable(limit("fixed-window", 100, 500_000))).toBe(true);
    expect(isLeasable(limit("fixed-window", 100, 499_999))).toBe(false);
    expect(isLeasable(limit("sliding-window", 100, 5 * second))).toBe(true);
    expect(isLeasable(limit("sliding-window", 100, second))).toBe(false);
  });

  test("but never if each request has its own moment", () => {
    expect(isLeasable(limit("sliding-log", 1000, minute))).toBe(false);
    expect(isLeasable(limit("leaky-bucket", 1000, minute))).toBe(false);
    expect(isLeasable(limit("concurrency", 1000, minute))).toBe(false);
  });

  function isLeasable(held: Limit): boolean {
    return ledger.isLeasable(rates.rateOf(held), holder.leaseParameters);
  }
});

test("a request is decided exactly at low demand, then by leases, and refused if Redis said so", () => {
  const gateway = new Gateway(product, "node");
  const wayFor = (cost: number, nowUs: number) => holder.wayFor(gateway.holder, cost, nowUs);
  expect(wayFor(1, 0)).toBe("exact");
  gateway.asked = 10;
  const plan = gateway.plan(holder.leaseParameters, 100_000);
  expect(plan).toEqual({ exchanges: true, back: 0, want: 5 });
  gateway.send(100_000, plan);
  expect(wayFor(1, 100_000)).toBe("ask");
  expect(wayFor(4, 100_000)).toBe("exact");
  gateway.acceptAnswer(101_000, {
    seq: 1,
    grant: 0,
    honoured: 0,
    durationUs: 300_000,
    retryAfterUs: 50_000,
    elsewhere: 0,
  });
  expect(wayFor(1, 150_999)).toBe("refuse");
  expect(holder.refusedUntil(gateway.holder)).toBe(151_000);
  expect(wayFor(1, 151_000)).toBe("ask");
});
