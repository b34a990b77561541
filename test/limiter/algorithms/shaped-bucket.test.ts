// A token-bucket with `initial` or `warmUp` where it meets what is around it: edits, steps of the clock, lost beginnings, refunds by hand, debts,
// shares and leases. test/vectors/shaped-bucket.json has its plain decisions.

import { describe, expect, test } from "vitest";
import { emptyDecision, never } from "../../../limiter/src/algorithms/decision.ts";
import { chargeUpTo } from "../../../limiter/src/algorithms/deferred-charge.ts";
import type { Limit } from "../../../limiter/src/algorithms/limit.ts";
import { memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import {
  admits,
  capacity,
  describe as describeDecision,
  keepsEntries,
  lifetimeUs,
  needsEntries,
  rateOf,
  refund,
  sizeOf,
  slides,
} from "../../../limiter/src/algorithms/rate.ts";
import { beginShare, shareOf } from "../../../limiter/src/algorithms/share.ts";
import { topUp } from "../../../limiter/src/algorithms/top-up.ts";
import { leaseParameters } from "../../../limiter/src/lease/holder.ts";
import {
  exchange,
  isLeasable,
  type Ledger,
  ledgerLifetimeUs,
  oweWhatIsOut,
} from "../../../limiter/src/lease/ledger.ts";
import { Counter, day, hour, ms, second, startUs } from "./counter.ts";
import { DeferredCounter } from "./deferred-counter.ts";

const limit = { algorithm: "token-bucket", quota: 100, windowUs: second, burst: 100, precisionUs: 0 } as const;
const rate = (shape: Pick<Limit, "initial" | "warmUpUs">, sizes: Partial<Limit> = {}) =>
  rateOf({ ...limit, ...sizes, ...shape });
const warm = rate({ initial: 0, warmUpUs: 30 * second });

/** @returns how many single requests are admitted that ask each 100 µs */
function admittedIn(counter: Counter, fromUs: number, us: number): number {
  let units = 0;
  for (let at = 0; at < us; at += 100) if (counter.allows(fromUs + at)) units += 1;
  return units;
}

describe("a limit with initial or warmUp", () => {
  test("is a rate of its own; one with neither is a plain token-bucket", () => {
    expect(rate({})).toEqual(rateOf(limit));
    expect(rate({}).algorithm).toBe("token-bucket");
    expect(rate({ initial: 0 })).toMatchObject({ algorithm: "shaped-bucket", initial: 0, warmUpUs: 0, burst: 100 });
    expect(rate({ warmUpUs: second })).toMatchObject({ algorithm: "shaped-bucket", initial: 100, warmUpUs: second });
    expect([capacity(warm), sizeOf(warm)]).toEqual([100, 100]);
    expect([keepsEntries(warm), slides(warm)]).toEqual([true, false]);
  });

  test("is kept full for an hour, for its window or for its warm-up, whichever is longest", () => {
    const idle = (shape: Pick<Limit, "initial" | "warmUpUs">, windowUs: number) => {
      const counter = new Counter(rate(shape, { windowUs }));
      counter.ask(startUs, 0);
      return lifetimeUs(counter.rate, counter.state, startUs + 10 * day) - 1;
    };
    expect(idle({ initial: 1 }, second)).toBe(hour);
    expect(idle({ initial: 1 }, 2 * hour)).toBe(2 * hour);
    expect(idle({ warmUpUs: day }, second)).toBe(day);
  });

  test("needs its entry while it may warm, and else its head alone", () => {
    const state = memoryCounter();
    expect(needsEntries(warm, state, startUs, 1)).toBe(true);
    expect(needsEntries(rate({ initial: 0 }), state, startUs, 1)).toBe(false);
    expect(needsEntries(rateOf(limit), state, startUs, 1)).toBe(false);
    expect(needsEntries(rateOf({ ...limit, algorithm: "sliding-log" }), state, startUs, 1)).toBe(false);
  });
});

describe("a counter that warms in 30 s", () => {
  test("admits 10 units in its first 0.3 s, and a third, two thirds and all of its rate in the seconds from 1, 15 and 30 on", () => {
    const counter = new Counter(warm);
    expect([0, 1, 2].map((tenth) => admittedIn(counter, startUs + tenth * 100 * ms, 100 * ms))).toEqual([3, 3, 4]);
    const rates = [1, 15, 30].map((age) => {
      const fresh = new Counter(rate({ initial: 0, warmUpUs: 30 * second }, { burst: 1 }));
      fresh.ask(startUs);
      return admittedIn(fresh, startUs + age * second, second);
    });
    expect(rates).toEqual([37, 68, 100]);
  });

  test("has had 2,000 units when it is warm: two thirds of what the whole rate gives", () => {
    const counter = new Counter(warm);
    expect(admittedIn(counter, startUs, 30 * second)).toBe(1_999);
    expect(counter.allows(startUs + 30 * second)).toBe(true);
    expect(admittedIn(counter, startUs + 30 * second + 100, 10 * second)).toBe(1_000);
  });

  test("keeps its beginning until then, and only its head after that", () => {
    const counter = new Counter(warm);
    counter.ask(startUs);
    expect(counter.state).toMatchObject({ length: 1, offset: 30_000, stepped: true });
    counter.ask(startUs + 30 * second - 1);
    expect(counter.state.length).toBe(1);
    counter.ask(startUs + 30 * second);
    expect(counter.state).toMatchObject({ length: 0, start: 0, offset: 0, stepped: false });
  });

  test("says to the µs when units come back, in real time, and nothing of an allowed request", () => {
    const counter = new Counter(warm);
    expect(counter.ask(startUs)).toMatchObject({ remaining: 0, retryAfterUs: 29_971, resetAfterUs: 2_748_240 });
    expect(counter.peek(startUs, 101)).toMatchObject({ remaining: 0, retryAfterUs: never, resetAfterUs: 2_748_240 });
    // Its clock stands still for up to 3 µs.
    for (let us = 29_971; us < 29_980; us++) {
      expect(counter.peek(startUs + us)).toMatchObject({ allowed: true, retryAfterUs: 0 });
    }
    expect(counter.ask(startUs + 29_971).resetAfterUs).toBe(2_743_605);
    counter.ask(startUs + 29 * second, 100);
    expect(counter.ask(startUs + 29 * second, 98)).toMatchObject({ retryAfterUs: 991_111, resetAfterUs: 1_011_111 });
  });

  test("is never said to have been full for a time", () => {
    const counter = new Counter(rate({ warmUpUs: hour }));
    counter.ask(startUs);
    const resets = Array.from({ length: 200 }, (_, us) => counter.peek(startUs + second + us, 0).resetAfterUs);
    expect(new Set(resets)).toEqual(new Set([0]));
  });

  test("asks nothing of its entries when it is warm, and has none without warmUp", () => {
    const unasked = (): never => {
      throw new Error("an entry was asked for");
    };
    const ring = { tickAt: unasked, startAt: unasked, put: unasked, grow: unasked };
    for (const shape of [{ initial: 0, warmUpUs: 30 * second }, { initial: 0 }]) {
      const own = rate(shape);
      const state = memoryCounter();
      if (own.algorithm === "shaped-bucket" && own.warmUpUs > 0) {
        const counter = new Counter(own);
        counter.ask(startUs);
        counter.ask(startUs + 30 * second);
        Object.assign(state, counter.state);
      }
      const decision = emptyDecision();
      const allowed = admits(own, state, ring, startUs + 31 * second, 1);
      describeDecision(own, state, ring, startUs + 31 * second, 1, allowed, decision);
      refund(own, state, ring, startUs + 31 * second, state.atUs, 1);
      expect(decision.allowed).toBe(shape.warmUpUs !== undefined);
      expect(state).toMatchObject({ length: 0, capacity: state.capacity, offset: 0 });
    }
  });

  test("is refunded by the time when it is warm by now", () => {
    const counter = new Counter(rate({ initial: 100, warmUpUs: 30 * second }, { quota: 1, burst: 100 }));
    counter.ask(startUs, 50);
    // It owes 50 s, of which 30 s of its clock have passed 40 s later, when the beginning is not forgotten yet.
    expect(counter.head.atUs).toBe(startUs + 60 * second);
    counter.refund(5, startUs + 40 * second);
    expect(counter.head.atUs).toBe(startUs + 55 * second);
    counter.refund(50, startUs + 40 * second);
    expect(counter.head.atUs).toBe(startUs + 40 * second);
  });

  test("counts as warm where its store has lost the beginning, and has no more units for that", () => {
    const counter = new Counter(warm);
    counter.ask(startUs, 1);
    const { remaining } = counter.peek(startUs + 5 * second, 0);
    Object.assign(counter.state, { length: 0, capacity: 0, start: 0, offset: 0 });
    expect(counter.peek(startUs + 5 * second, 0).remaining).toBeLessThanOrEqual(remaining);
    expect(admittedIn(counter, startUs + 20 * second, 10 * second)).toBe(1_100 - 1);
  });
});

describe("an edit", () => {
  test("that adds a warm-up leaves counters warm that exist, and their units", () => {
    const counter = new Counter(rateOf(limit));
    counter.ask(startUs, 60);
    counter.rate = warm;
    expect(counter.peek(startUs, 0)).toMatchObject({ remaining: 40, resetAfterUs: 600 * ms });
  });

  test("that removes it leaves the head readable: a counter that warms owes at most a third of the warm-up more", () => {
    const counter = new Counter(rate({ warmUpUs: 2 * second }, { burst: 1_000 }));
    counter.ask(startUs, 100);
    counter.rate = rateOf({ ...limit, burst: 1_000 });
    expect(counter.peek(startUs, 0).remaining).toBe(900 - 67);
    expect(counter.peek(startUs + 2 * second, 0).remaining).toBe(1_000);
  });

  test("that leaves initial alone forgets the beginning, and keeps the units", () => {
    const counter = new Counter(warm);
    counter.ask(startUs);
    counter.rate = rate({ initial: 0 });
    counter.ask(startUs + second);
    expect(counter.state.length).toBe(0);
    expect(counter.peek(startUs + second, 0).remaining).toBe(33);
  });

  test("that makes it shorter makes counters warm at once that are older; a longer one holds for counters that begin later", () => {
    const counter = new Counter(warm);
    counter.ask(startUs);
    counter.rate = rate({ initial: 0, warmUpUs: 10 * second });
    counter.ask(startUs + 10 * second - 1);
    expect(counter.state).toMatchObject({ length: 1, offset: 30_000 });
    counter.ask(startUs + 10 * second);
    expect(counter.state.length).toBe(0);

    const longer = new Counter(warm);
    longer.ask(startUs);
    longer.rate = rate({ initial: 0, warmUpUs: hour });
    longer.ask(startUs + 29 * second);
    expect(longer.state.offset).toBe(30_000);
    longer.ask(startUs + 30 * second);
    expect(longer.state.length).toBe(0);
  });

  test("that makes it shorter keeps the units of a counter that is warm at once", () => {
    const counter = new Counter(rate({ warmUpUs: 600 * second }, { quota: 6, windowUs: 60 * second, burst: 6 }));
    counter.ask(startUs);
    const before = counter.peek(startUs + 100 * second, 0).remaining;
    counter.rate = rate({ warmUpUs: 20 * second }, { quota: 6, windowUs: 60 * second, burst: 6 });
    expect(before).toBeGreaterThan(4);
    expect(counter.ask(startUs + 100 * second)).toMatchObject({ allowed: true, remaining: before - 1 });
    expect(counter.state).toMatchObject({ length: 0, stepped: true });
  });
});

describe("a clock that steps back behind the beginning", () => {
  test("by no more than the tolerance leaves it, and by more takes it along", () => {
    const counter = new Counter(warm);
    counter.ask(startUs);
    const { remaining, retryAfterUs } = counter.peek(startUs);
    expect(counter.ask(startUs - second)).toMatchObject({ remaining, retryAfterUs: retryAfterUs + second });
    expect(counter.state.stepped).toBe(false);
    expect(counter.ask(startUs - second - 1).retryAfterUs).toBeLessThanOrEqual(retryAfterUs + second);
    expect(counter.state).toMatchObject({ stepped: true, length: 1, offset: 30_000 });
    // The step is saved although nothing else of a full counter has changed.
    const full = new Counter(rate({ warmUpUs: 30 * second }));
    full.ask(startUs, 0);
    full.ask(startUs - 1_500 * ms, 0);
    expect(full.state.stepped).toBe(true);
    // As empty as it was, and as cold.
    const again = new Counter(warm);
    again.ask(startUs - second - 1);
    expect(counter.peek(startUs, 0).remaining).toBeLessThanOrEqual(again.peek(startUs, 0).remaining);
  });
});

describe("units topped up by hand", () => {
  test("are there at once, up to the burst, whatever it began with", () => {
    const counter = new Counter(warm);
    counter.ask(startUs);
    topUp(warm, counter.state, memoryRing, startUs, 10);
    expect(counter.peek(startUs, 0).remaining).toBe(10);
    topUp(warm, counter.state, memoryRing, startUs, 1_000);
    expect(counter.peek(startUs, 0)).toMatchObject({ remaining: 100, resetAfterUs: 0 });
    expect(counter.state.length).toBe(1);
  });
});

describe("a charge of what was taken already", () => {
  test("takes what has refilled by the counter's own clock, and what refills within the tolerance", () => {
    const counter = new Counter(warm);
    counter.ask(startUs);
    // 110 units have refilled in 3 s, of which 100 fit.
    expect(chargeUpTo(warm, counter.state, memoryRing, startUs + 3 * second, 500)).toBe(200);
    expect(counter.allows(startUs + 3 * second)).toBe(false);
  });

  test("leaves a debt that is paid as the rate grows", () => {
    const counter = new DeferredCounter(warm);
    counter.chargeDeferred(startUs, 1_899);
    // 1,899 and one more have refilled when the clock has run 19 s: U/2 × (√(1 + 12 × 19 ÷ 30) − 1).
    const { retryAfterUs } = counter.ask(startUs);
    expect(retryAfterUs).toBe(Math.ceil(15 * second * (Math.sqrt(1 + (12 * 19) / 30) - 1)));
    expect(counter.ask(startUs + retryAfterUs - 1).allowed).toBe(false);
    expect(counter.ask(startUs + retryAfterUs)).toMatchObject({ allowed: true, remaining: 1 });

    const long = new DeferredCounter(warm);
    long.chargeDeferred(startUs, 2_999);
    // When it is warm, 2,000 have refilled, and then 100 a second.
    expect(long.debt.paidAtUs).toBe(startUs + 39_990 * ms);
    expect(long.ask(startUs).retryAfterUs).toBe(40 * second);
    expect(long.ask(startUs + 40 * second)).toMatchObject({ allowed: true, remaining: 1 });
  });
});

describe("a gateway's share while Redis is away", () => {
  const share = shareOf(rate({ initial: 60, warmUpUs: 30 * second }), 3, 1);

  test("is a share of everything but the time", () => {
    // It remembers larger debts than a bucket of its own would.
    const toleranceUs = expect.any(Number) as number;
    const third = rate({ initial: 20, warmUpUs: 30 * second }, { quota: 33, burst: 33 });
    expect(share).toEqual({ ...third, toleranceUs });
    const least = rate({ initial: 0 }, { quota: 1, burst: 5 });
    expect(shareOf(rate({ initial: 0 }), 200, 5)).toEqual({ ...least, toleranceUs });
  });

  test("begins cold and with its share of initial, and empty where Redis has just counted", () => {
    expect(new Counter(share).peek(startUs, 0).remaining).toBe(20);
    const counter = new Counter(share);
    const known = { atUs: startUs, nothingUntilUs: 0, limits: undefined };
    expect(beginShare(share, counter.state, memoryRing, known, startUs)).toBe(true);
    expect(counter.peek(startUs, 0).remaining).toBe(0);
    // A third of 33 a second, and a little.
    expect(counter.peek(startUs + second, 0).remaining).toBe(11);
    expect(beginShare(share, counter.state, memoryRing, known, startUs + second)).toBe(false);
    expect(counter.peek(startUs + second, 0).remaining).toBe(11);
  });

  test("that has begun is emptied, and stays as warm as it is", () => {
    const counter = new Counter(share);
    counter.ask(startUs);
    const known = { atUs: startUs + 60 * second, nothingUntilUs: 0, limits: undefined };
    expect(beginShare(share, counter.state, memoryRing, known, startUs + 60 * second)).toBe(true);
    expect(counter.head.atUs).toBe(startUs + 61 * second);
    expect(counter.peek(startUs + 60 * second, 0).remaining).toBe(0);
    expect(counter.peek(startUs + 61 * second, 0).remaining).toBe(33);
  });
});

describe("leases", () => {
  const shaped = rate({ initial: 10 });
  const leased = (state: ReturnType<typeof memoryCounter>) =>
    Object.assign(state, { rate: shaped, cost: 1, unpaidUs: 0, allowed: true });
  const message = { holder: "a", seq: 1, acknowledged: 0, kept: 0, back: 0, want: 40 };

  test("are given of a bucket with initial, and not of one that warms, whose units would refill by another clock", () => {
    expect(isLeasable(shaped, leaseParameters)).toBe(true);
    expect(isLeasable(rate({ initial: 10 }, { burst: 49 }), leaseParameters)).toBe(false);
    expect(isLeasable(warm, leaseParameters)).toBe(false);
  });

  test("are of no more units than it begins with", () => {
    const ledger: Ledger = { holdings: [], count: 0 };
    const counter = leased(memoryCounter());
    const place = exchange(ledger, [counter], 1, memoryRing, startUs, message, leaseParameters);
    expect(ledger.holdings[place]?.grant).toBe(10);
    // Until the ten units have expired and refilled.
    expect(ledgerLifetimeUs(ledger, [counter], 1, startUs)).toBeGreaterThan(100 * ms);
    const other = exchange(ledger, [counter], 1, memoryRing, startUs, { ...message, holder: "b" }, leaseParameters);
    expect(ledger.holdings[other]?.grant).toBe(0);
  });

  test("that are out when Redis loses the counter are taken off what it begins with", () => {
    const ledger: Ledger = { holdings: [], count: 0 };
    exchange(ledger, [leased(memoryCounter())], 1, memoryRing, startUs, message, leaseParameters);
    const lost = new Counter(shaped);
    oweWhatIsOut(ledger, shaped, lost.state, startUs);
    expect(lost.peek(startUs, 0).remaining).toBe(0);
    oweWhatIsOut(ledger, shaped, lost.state, startUs);
    expect(lost.peek(startUs + 50 * ms, 0).remaining).toBe(5);
    const unleased = memoryCounter();
    oweWhatIsOut({ holdings: [], count: 0 }, shaped, unleased, startUs);
    expect(unleased).toMatchObject({ atUs: 0, count: 0 });
  });
});
