// The worked cases at the limiter alone: each limit of a policy has one counter, asked at set times. End to end they run in
// ../e2e/worked-cases.test.ts.

import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type Counter, chargeAll } from "../../limiter/src/algorithms/charge-all.ts";
import { type Decision, emptyDecision, never } from "../../limiter/src/algorithms/decision.ts";
import { type MemoryCounter, memoryCounter, memoryRing } from "../../limiter/src/algorithms/memory-ring.ts";
import { describe as describeCounter } from "../../limiter/src/algorithms/rate.ts";
import { compilePolicy } from "../../limiter/src/compiled/compile.ts";
import { validatePolicy } from "../../limiter/src/document/validate.ts";
import {
  booksPerMinute,
  burstAcrossABorder,
  fullHour,
  mostWithin,
  perSecondAndPer30Seconds,
  tenPerMinute,
  type WorkedCase,
  wrongCosts,
} from "../fixtures/documents/worked-cases.ts";
import { policyNamed } from "./policies.ts";

/** The counters of a policy's limits for one key. */
class Counters {
  readonly #counters: (Counter & MemoryCounter)[];

  constructor(limits: WorkedCase["limits"]) {
    this.#counters = compilePolicy("default", policyNamed("case", { limits })).limits.map(({ rate }) =>
      Object.assign(memoryCounter(), { rate, cost: 1, unpaidUs: 0, allowed: true }),
    );
  }

  ask(atSeconds: number, cost = 1): Decision[] {
    const nowUs = (fullHour + atSeconds) * 1_000_000;
    for (const counter of this.#counters) counter.cost = cost;
    chargeAll(this.#counters, this.#counters.length, memoryRing, nowUs);
    return this.#counters.map((counter) => {
      const decision = emptyDecision();
      describeCounter(counter.rate, counter, memoryRing, nowUs, cost, counter.allowed, decision);
      return decision;
    });
  }

  /** Returns how many of `requests` at once are admitted. */
  admittedOf(requests: number, atSeconds: number, cost = 1): number {
    let admitted = 0;
    for (let i = 0; i < requests; i++) if (this.ask(atSeconds, cost).every(({ allowed }) => allowed)) admitted += 1;
    return admitted;
  }

  remaining(atSeconds: number): number[] {
    // No limit holds this cost, so it is refused and charges nothing.
    return this.ask(atSeconds, 2 ** 31).map(({ remaining }) => remaining);
  }
}

function play({ limits, offers }: WorkedCase): WorkedCase["offers"] {
  const counters = new Counters(limits);
  return offers.map((offer) => ({ ...offer, admitted: counters.admittedOf(offer.requests, offer.atSeconds) }));
}

describe("case 3: 120 a minute on /api/books, offered 20, 100, 100, 20 per half minute", () => {
  test.each(booksPerMinute)("$name", (workedCase) => {
    const offers = play(workedCase);
    expect(offers).toEqual(workedCase.offers);
    const [fixed] = booksPerMinute;
    expect(mostWithin(60, offers)).toBe(workedCase === fixed ? 200 : 120);
  });
});

describe("case 4: 1,000 per 3 s, offered 10, 10, 980, 900, 100, 0 per second", () => {
  test.each(burstAcrossABorder)("$name", (workedCase) => {
    const offers = play(workedCase);
    expect(offers).toEqual(workedCase.offers);
    const [fixed] = burstAcrossABorder;
    expect(mostWithin(3, offers)).toBe(workedCase === fixed ? 1980 : 1000);
  });
});

describe("case 5: 10 a minute with a precision of 5 s", () => {
  test(tenPerMinute.name, () => {
    const offers = play(tenPerMinute);
    expect(offers).toEqual(tenPerMinute.offers);
    expect(mostWithin(60, offers)).toBe(10);
  });

  test("reports to refused requests when the block leaves the window", () => {
    const counters = new Counters(tenPerMinute.limits);
    counters.admittedOf(10, 0);
    expect(counters.ask(9)[0]).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: 56_000_000 });
    expect(counters.ask(64.999999)[0]).toMatchObject({ allowed: false, retryAfterUs: 1 });
    expect(counters.ask(65)[0]).toMatchObject({ allowed: true, remaining: 9 });
  });
});

describe("case 6: 10/s and 500 per 30 s on one policy", () => {
  test.each(perSecondAndPer30Seconds)("$name", (workedCase) => {
    expect(play(workedCase)).toEqual(workedCase.offers);
  });

  test("a refusal by the first charges the second nothing, and the other way round", () => {
    const [, withBurst] = perSecondAndPer30Seconds;
    const counters = new Counters((withBurst as WorkedCase).limits);
    expect(counters.admittedOf(400, 0)).toBe(300);
    expect(counters.remaining(0)).toEqual([0, 200]);
    expect(counters.admittedOf(400, 20)).toBe(200);
    expect(counters.remaining(20)).toEqual([0, 0]);
    expect(counters.admittedOf(50, 29)).toBe(0);
    expect(counters.remaining(29)).toEqual([90, 0]);
    expect(counters.remaining(30)).toEqual([100, 500]);
  });
});

describe("case 7: several units at once", () => {
  const capacityOfSeven = [
    { algorithm: "token-bucket", quota: 7, window: "1m" },
    { algorithm: "fixed-window", quota: 7, window: "1m" },
    { algorithm: "sliding-window", quota: 7, window: "1m" },
    { algorithm: "sliding-log", quota: 7, window: "1m" },
    { algorithm: "leaky-bucket", quota: 7, window: "1m", burst: 6 },
    { algorithm: "concurrency", quota: 7 },
  ];

  test.each(capacityOfSeven)("three and then four are all that a $algorithm of 7 holds", (limit) => {
    const counters = new Counters([limit]);
    expect(counters.ask(0, 3)[0]).toMatchObject({ allowed: true, remaining: 4 });
    expect(counters.ask(0, 5)[0]).toMatchObject({ allowed: false, remaining: 4 });
    expect(counters.ask(0, 4)[0]).toMatchObject({ allowed: true, remaining: 0 });
    expect(counters.ask(0, 1)[0]).toMatchObject({ allowed: false, remaining: 0 });
  });

  test.each(capacityOfSeven)("eight are never admitted by a $algorithm of 7, and no wait is promised", (limit) => {
    const counters = new Counters([limit]);
    for (const atSeconds of [0, 1, 3600]) {
      expect(counters.ask(atSeconds, 8)[0]).toMatchObject({ allowed: false, remaining: 7, retryAfterUs: never });
    }
  });

  test.each(wrongCosts)("a policy may not have the cost $written", ({ written, expected, got }) => {
    const document = parse(
      `{ name: x, cost: ${written}, limits: [{ algorithm: token-bucket, quota: 7, window: 1m }] }`,
    );
    expect(validatePolicy(document)).toEqual({ problems: [{ path: "cost", expected, got }] });
  });
});
