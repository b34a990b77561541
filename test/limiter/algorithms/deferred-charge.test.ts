import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Rate, rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { crowdedTraces, type LegalLimit, limitedTraces } from "../legal-limits.ts";
import { Counter, hour, minute, second } from "./counter.ts";
import { DeferredCounter } from "./deferred-counter.ts";

/** 2023-11-14T22:14:00Z, where a minute begins. */
const startUs = 1_700_000_040_000_000;
const deferred = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;
const megabyte = 1_000_000;

function limitOf(algorithm: (typeof deferred)[number], quota: number, windowUs: number, burst = quota): Rate {
  return rateOf({ algorithm, quota, windowUs, burst, precisionUs: algorithm === "sliding-window" ? windowUs / 12 : 0 });
}

/** @returns how long the slowest algorithm takes until everything that was charged at one moment is free again */
function periodUs(rate: Rate): number {
  if (rate.algorithm === "sliding-window" || rate.algorithm === "sliding-log") return (rate.ticks + 1) * rate.tickUs;
  return rate.windowUs;
}

describe("a download quota of 10 MB a minute", () => {
  test.each(deferred)("%s: charges what a response took, and nothing before", (algorithm) => {
    const counter = new DeferredCounter(limitOf(algorithm, 10 * megabyte, minute));
    for (let i = 0; i < 100; i++) expect(counter.ask(startUs).remaining).toBe(10 * megabyte);
    counter.chargeDeferred(startUs, 4 * megabyte);
    expect(counter.ask(startUs)).toMatchObject({ allowed: true, remaining: 6 * megabyte });
    counter.chargeDeferred(startUs, 6 * megabyte);
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, remaining: 0 });
  });

  test("fixed-window: 25 MB take this minute, the next and half of the one after it", () => {
    const counter = new DeferredCounter(limitOf("fixed-window", 10 * megabyte, minute));
    counter.chargeDeferred(startUs + second, 25 * megabyte);
    expect(counter.ask(startUs + second)).toMatchObject({ allowed: false, retryAfterUs: 119 * second });
    expect(counter.ask(startUs + 2 * minute - 1).allowed).toBe(false);
    expect(counter.ask(startUs + 2 * minute)).toMatchObject({ allowed: true, remaining: 5 * megabyte });
    expect(counter.ask(startUs + 3 * minute)).toMatchObject({ allowed: true, remaining: 10 * megabyte });
  });

  test("fixed-window: exactly three windows' worth is paid by three windows, and the fourth is whole", () => {
    const counter = new DeferredCounter(limitOf("fixed-window", 10 * megabyte, minute));
    counter.chargeDeferred(startUs, 30 * megabyte);
    expect(counter.ask(startUs).retryAfterUs).toBe(3 * minute);
    expect(counter.ask(startUs + 3 * minute)).toMatchObject({ allowed: true, remaining: 10 * megabyte });
  });

  test("token-bucket: 25 MB are refilled in 90 s, and the next byte 6 µs later", () => {
    const counter = new DeferredCounter(limitOf("token-bucket", 10 * megabyte, minute));
    counter.chargeDeferred(startUs, 25 * megabyte);
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, retryAfterUs: 90 * second + 6 });
    expect(counter.ask(startUs + 90 * second + 6)).toMatchObject({ allowed: true, remaining: 1 });
    expect(counter.ask(startUs + 150 * second).remaining).toBe(10 * megabyte);
  });

  test("token-bucket: a bucket that holds little pays by what refills, and not by what it holds", () => {
    const counter = new DeferredCounter(limitOf("token-bucket", 100, minute, 1));
    counter.chargeDeferred(startUs, 251);
    // This does not depend on how often it is called meanwhile.
    for (let us = startUs; us < startUs + 150 * second; us += second) expect(counter.ask(us).allowed).toBe(false);
    expect(counter.ask(startUs + 150 * second + 600_000).allowed).toBe(true);
  });

  test("sliding-log: a debt is paid as earlier charges expire", () => {
    const counter = new DeferredCounter(limitOf("sliding-log", 10 * megabyte, minute));
    counter.chargeDeferred(startUs, 4 * megabyte);
    counter.chargeDeferred(startUs + 30 * second, 8 * megabyte);
    expect(counter.ask(startUs + 30 * second)).toMatchObject({ allowed: false, retryAfterUs: 30 * second });
    expect(counter.ask(startUs + minute)).toMatchObject({ allowed: true, remaining: 2 * megabyte });
    expect(counter.ask(startUs + 90 * second).remaining).toBe(8 * megabyte);
  });

  test("sliding-log: 45 MB at once are free in the fifth minute, 5 MB of them later", () => {
    const counter = new DeferredCounter(limitOf("sliding-log", 10 * megabyte, minute));
    counter.chargeDeferred(startUs, 45 * megabyte);
    expect(counter.ask(startUs).retryAfterUs).toBe(4 * minute);
    expect(counter.ask(startUs + 4 * minute)).toMatchObject({ allowed: true, remaining: 5 * megabyte });
  });

  test("sliding-window: with blocks of 5 s each turn takes 65 s", () => {
    const counter = new DeferredCounter(limitOf("sliding-window", 10 * megabyte, minute));
    counter.chargeDeferred(startUs, 25 * megabyte);
    expect(counter.ask(startUs).retryAfterUs).toBe(130 * second);
    expect(counter.ask(startUs + 130 * second)).toMatchObject({ allowed: true, remaining: 5 * megabyte });
  });

  test.each(deferred)("%s: responses that end while a debt is paid are added to it", (algorithm) => {
    const [once, twice] = [limitOf(algorithm, 10, minute), limitOf(algorithm, 10, minute)].map(
      (rate) => new DeferredCounter(rate),
    ) as [DeferredCounter, DeferredCounter];
    once.chargeDeferred(startUs, 47);
    twice.chargeDeferred(startUs, 25);
    twice.chargeDeferred(startUs, 1);
    twice.chargeDeferred(startUs, 21);
    for (let us = 0; us < 6 * minute; us += second) {
      expect(twice.ask(startUs + us)).toEqual(once.ask(startUs + us));
    }
  });
});

describe("a debt", () => {
  test.each(deferred)("%s: is paid ten times as fast under a quota ten times as large", (algorithm) => {
    const counter = new DeferredCounter(limitOf(algorithm, 1000, minute));
    counter.chargeDeferred(startUs, 101_000);
    const wait = counter.ask(startUs).retryAfterUs;
    expect(wait).toBeGreaterThanOrEqual(100 * minute);
    counter.rate = limitOf(algorithm, 10_000, minute);
    expect(counter.ask(startUs).retryAfterUs).toBeLessThan(wait / 10 + 2 * minute);
    expect(counter.ask(startUs + 9 * minute).allowed).toBe(false);
    expect(counter.ask(startUs + 13 * minute).allowed).toBe(true);
  });

  test.each(deferred)("%s: moves with a clock that steps back", (algorithm) => {
    const counter = new DeferredCounter(limitOf(algorithm, 10, minute));
    counter.chargeDeferred(startUs, 35);
    const wait = counter.ask(startUs).retryAfterUs;
    expect(counter.ask(startUs - hour).retryAfterUs).toBeLessThanOrEqual(wait + 2 * minute);
    expect(counter.ask(startUs - hour).allowed).toBe(false);
    counter.chargeDeferred(startUs - hour, 1);
    expect(counter.ask(startUs - hour + 6 * minute).allowed).toBe(true);
  });

  test.each(deferred)(
    "%s: is paid as announced after a step back of the clock, however often it is asked for",
    (algorithm) => {
      const counter = new DeferredCounter(limitOf(algorithm, 10, minute));
      counter.chargeDeferred(startUs, 35);
      const backUs = startUs - 100 * hour;
      const wait = counter.ask(backUs).retryAfterUs;
      for (let us = 0; us < wait; us += 7 * second) {
        expect(counter.ask(backUs + us)).toMatchObject({ allowed: false, retryAfterUs: wait - us });
      }
      expect(counter.ask(backUs + wait).allowed).toBe(true);
    },
  );

  test("whose end is too far away reaches into the year 2128 and no further", () => {
    for (const algorithm of deferred) {
      const counter = new DeferredCounter(limitOf(algorithm, 1, 366 * 24 * hour));
      for (let i = 0; i < 100; i++) counter.chargeDeferred(startUs, 2 ** 52);
      const { retryAfterUs } = counter.ask(startUs);
      expect(retryAfterUs).toBeGreaterThan(3.2e15);
      expect(retryAfterUs).toBeLessThan(3.4e15);
    }
  });
});

describe("what a debt leaves, to the unit and to the µs:", () => {
  test("a clock that steps back by no more than the tolerance does not move it, and one µs more does", () => {
    const rate = limitOf("fixed-window", 10, minute);
    const counter = new DeferredCounter(rate);
    counter.chargeDeferred(startUs + 30 * second, 25);
    expect(rate.toleranceUs).toBe(second);
    expect(counter.ask(startUs + 30 * second)).toMatchObject({ allowed: false, retryAfterUs: 90 * second });
    expect(counter.ask(startUs + 29 * second).retryAfterUs).toBe(91 * second);
    expect(counter.ask(startUs + 29 * second - 1).retryAfterUs).toBe(90 * second);
  });

  test("a refusal tells when the window ends in which the last unit is paid", () => {
    const counter = new DeferredCounter(limitOf("fixed-window", 10, minute));
    counter.chargeDeferred(startUs + second, 25);
    expect(counter.ask(startUs + second)).toEqual({
      allowed: false,
      limit: 10,
      remaining: 0,
      retryAfterUs: 119 * second,
      resetAfterUs: 179 * second,
      delayUs: 0,
    });
  });

  test("a bucket pays its last unit within a µs, and that µs counts as a whole one", () => {
    // A unit takes 333,333⅓ µs.
    const counter = new DeferredCounter(limitOf("token-bucket", 3, second));
    counter.chargeDeferred(startUs, 4);
    expect(counter.debt).toEqual({ paidAtUs: startUs + 333_334, sinceUs: startUs, quota: 3 });
    counter.chargeDeferred(startUs, 2);
    expect(counter.debt.paidAtUs).toBe(startUs + second);
  });

  test("a leaky bucket owes what departs before its queue is full again", () => {
    const rate = rateOf({ algorithm: "leaky-bucket", quota: 10, windowUs: second, burst: 4, precisionUs: 0 });
    const counter = new DeferredCounter(rate);
    counter.chargeDeferred(startUs, 3);
    expect(counter.ask(startUs)).toMatchObject({ allowed: true, limit: 5, remaining: 2, delayUs: 300_000 });
    counter.chargeDeferred(startUs, 12);
    expect(counter.debt.paidAtUs).toBe(startUs + second);
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: 1_100_000 });
    expect(counter.ask(startUs + 1_100_000)).toMatchObject({ allowed: true, remaining: 1 });
  });

  test("a fixed window has no entries that would move", () => {
    const counter = new DeferredCounter(limitOf("fixed-window", 10, minute));
    counter.chargeDeferred(startUs, 45);
    expect(counter.state).toMatchObject({ atUs: startUs + 4 * minute, count: 5, offset: 0, length: 0 });
  });

  test.each(deferred)("%s: one that is forgiven in the year 2128 ends there", (algorithm) => {
    const windowUs = 366 * 24 * hour;
    const counter = new DeferredCounter(limitOf(algorithm, 1, windowUs));
    counter.chargeDeferred(startUs, 2 ** 31);
    const { paidAtUs } = counter.debt;
    expect(paidAtUs).toBeGreaterThan(5e15 - windowUs);
    expect(paidAtUs).toBeLessThanOrEqual(5e15);
    expect(counter.ask(5e15 + 2 * windowUs)).toMatchObject({ allowed: true, remaining: 1 });
  });
});

describe("entries of a sliding window that moves ahead with a debt", () => {
  const wrap = 2 ** 32;
  /** A period is 13 blocks of 5 s. Units were taken in two of them, so that entries are left when the debt is paid. */
  const owing = (offset: number) => {
    const counter = new DeferredCounter(limitOf("sliding-window", 10, minute));
    counter.chargeDeferred(startUs, 4);
    counter.chargeDeferred(startUs + 30 * second, 2);
    counter.state.offset = offset;
    counter.state.ticks = counter.state.ticks.map((tick) => (tick + offset) % wrap);
    counter.chargeDeferred(startUs + 30 * second, 17);
    return counter;
  };

  // The offset says by how many ticks entries are ahead of the clock: here 13 less, because a turn makes the clock later.
  test.each([
    [0, wrap - 13],
    [5, wrap - 8],
    [13, 0],
    [20, 7],
    [wrap - 1, wrap - 14],
  ])("keep their age, modulo 2^32: %i ticks ahead become %i", (before, after) => {
    const counter = owing(before);
    expect(counter.state.offset).toBe(after);
    expect(counter.debt.paidAtUs).toBe(startUs + 130 * second);
    expect(counter.ask(startUs + 130 * second - 1)).toMatchObject({ allowed: false, retryAfterUs: 1 });
    expect(counter.ask(startUs + 130 * second)).toMatchObject({ allowed: true, remaining: 1 });
  });
});

/** @returns what a limit could have given from `fromUs` to `nowUs`, and what it had at the beginning */
function supply(rate: Rate, fromUs: number, nowUs: number): number {
  const { quota, windowUs } = rate;
  if (rate.algorithm === "token-bucket") return rate.burst + Math.ceil(((nowUs - fromUs) / windowUs) * quota);
  if (rate.algorithm === "fixed-window")
    return (Math.floor(nowUs / windowUs) - Math.floor(fromUs / windowUs) + 1) * quota;
  return (Math.floor((nowUs - fromUs) / windowUs) + 1) * quota;
}

interface Run {
  readonly limit: LegalLimit;
  readonly fromUs: number;
  readonly requests: readonly { afterUs: number; cost: number }[];
}

describe.each(deferred)("%s, deferred: for every legal limit and any responses,", (algorithm) => {
  const traces: fc.Arbitrary<Run> = fc.oneof(crowdedTraces(algorithm, 60), limitedTraces(algorithm, 30));
  const sizes = fc.array(fc.constantFrom(0, 0.5, 1, 2, 3, 7.5, 20), { minLength: 1, maxLength: 9 });
  const lengths = fc.array(fc.nat(5), { minLength: 1, maxLength: 7 });

  test("no request is admitted before the limit has given everything that was charged", () => {
    fc.assert(
      fc.property(traces, sizes, lengths, ({ limit, fromUs, requests }, factors, lasting) => {
        const rate = rateOf(limit);
        const counter = new DeferredCounter(rate);
        let [nowUs, taken, admitted] = [fromUs, 0, 0];
        /** Responses under way: after how many further requests each ends, and what it takes. */
        let underWay: { left: number; units: number }[] = [];
        requests.forEach(({ afterUs, cost }, i) => {
          nowUs += afterUs;
          for (const response of underWay) response.left -= 1;
          for (const { units } of underWay.filter(({ left }) => left < 0)) {
            counter.chargeDeferred(nowUs, units);
            taken += units;
          }
          underWay = underWay.filter(({ left }) => left >= 0);
          if (!counter.ask(nowUs).allowed) return;
          admitted += 1;
          expect(taken + 1).toBeLessThanOrEqual(supply(rate, fromUs, nowUs));
          const units = Math.ceil(cost * (factors[i % factors.length] as number));
          if (units > 0) underWay.push({ left: lasting[i % lasting.length] as number, units });
        });
        expect(admitted).toBeGreaterThan(0);
      }),
      { numRuns: 300 },
    );
  });

  test("a key is free again at the moment that was reported, and no later than its debt takes and one turn more", () => {
    fc.assert(
      fc.property(traces, sizes, ({ limit, fromUs, requests }, factors) => {
        const rate = rateOf(limit);
        const counter = new DeferredCounter(rate);
        let [nowUs, taken] = [fromUs, 0];
        requests.slice(0, 6).forEach(({ afterUs, cost }, i) => {
          nowUs += afterUs;
          const units = Math.ceil(cost * (factors[i % factors.length] as number));
          if (units > 0) counter.chargeDeferred(nowUs, units);
          taken += units;
          const { allowed, retryAfterUs } = counter.ask(nowUs);
          if (allowed) return;
          expect(retryAfterUs).toBeLessThanOrEqual(((taken + 1) / rate.quota + 1) * periodUs(rate) + 2);
          expect(counter.ask(nowUs + retryAfterUs)).toMatchObject({ allowed: true });
          expect(counter.ask(nowUs + retryAfterUs - 1).allowed).toBe(false);
        });
      }),
      { numRuns: 300 },
    );
  });

  test("what is not over the limit is charged like any request", () => {
    fc.assert(
      fc.property(traces, ({ limit, fromUs, requests }) => {
        const counter = new DeferredCounter(rateOf(limit));
        const ordinary = new Counter(rateOf(limit));
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          expect(counter.ask(nowUs)).toEqual(ordinary.peek(nowUs));
          if (ordinary.allows(nowUs, cost)) counter.chargeDeferred(nowUs, cost);
        }
      }),
      { numRuns: 200 },
    );
  });

  test("a debt is paid when a debtor who takes each unit as soon as it is free has paid it", () => {
    fc.assert(
      fc.property(crowdedTraces(algorithm, 4), sizes, ({ limit, fromUs, requests }, factors) => {
        // A bucket for one unit overflows in the part of a µs for which its debtor has to wait.
        fc.pre(algorithm !== "token-bucket" || limit.burst > 1);
        const counter = new DeferredCounter(rateOf(limit));
        const debtor = new Counter(rateOf(limit));
        let nowUs = fromUs;
        let payingUs = fromUs;
        requests.forEach(({ afterUs, cost }, i) => {
          nowUs += afterUs;
          const units = Math.ceil(cost * (factors[i % factors.length] as number));
          if (units === 0) return;
          counter.chargeDeferred(nowUs, units);
          payingUs = Math.max(payingUs, nowUs);
          for (let unit = 0; unit < units; unit++) {
            while (!debtor.peek(payingUs).allowed) payingUs += debtor.peek(payingUs).retryAfterUs;
            debtor.ask(payingUs);
          }
          const { allowed } = counter.ask(payingUs);
          if (algorithm === "token-bucket" || algorithm === "fixed-window") {
            expect(counter.ask(payingUs)).toEqual(debtor.peek(payingUs));
          } else if (allowed) {
            // The last units of a debt to a sliding limit are taken together, and are free later than one by one.
            expect(debtor.peek(payingUs).allowed).toBe(true);
          }
        });
      }),
      { numRuns: 300 },
    );
  });
});
