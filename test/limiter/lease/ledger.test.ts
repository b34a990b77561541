// What Redis grants, keeps and forgets, message by message. lease-model.test.ts plays whole worlds of gateways.

import { describe, expect, test } from "vitest";
import { calendarWindow, followWindow } from "../../../limiter/src/algorithms/calendar-window.ts";
import * as chargeAll from "../../../limiter/src/algorithms/charge-all.ts";
import { lifetimeWindowUs } from "../../../limiter/src/algorithms/fixed-window.ts";
import type { Limit } from "../../../limiter/src/algorithms/limit.ts";
import * as memory from "../../../limiter/src/algorithms/memory-ring.ts";
import * as rates from "../../../limiter/src/algorithms/rate.ts";
import * as holder from "../../../limiter/src/lease/holder.ts";
import * as ledgers from "../../../limiter/src/lease/ledger.ts";
import { Counter, day, hour, minute, ms, second } from "../algorithms/counter.ts";
import { Redis } from "./lease-world.ts";

const product = { ...rates, ...memory, ...chargeAll, ...holder, ...ledgers };
/** A minute begins. */
const startUs = 1_700_000_040 * second;
const { horizonUs, lifetimeUs } = holder.leaseParameters;

const limit = (algorithm: Limit["algorithm"], quota: number, windowUs: number, sizes: Partial<Limit> = {}): Limit => ({
  name: "limit",
  algorithm,
  quota,
  windowUs,
  burst: quota,
  precisionUs: 0,
  ...sizes,
});
const thousand = limit("fixed-window", 1000, minute);
const bucket = limit("token-bucket", 100, second);

function leased(limits: readonly Limit[] = [thousand], parameters = holder.leaseParameters) {
  const redis = new Redis(product, limits, parameters);
  return {
    redis,
    used: () => redis.counters.map(({ count }) => count),
    /** @returns undefined: the message was overtaken */
    send: (nowUs: number, name: string, seq: number, message: Partial<ledgers.LeaseMessage> = {}) =>
      redis.exchange(nowUs, { holder: name, seq, acknowledged: seq - 1, kept: 0, back: 0, want: 0, ...message }),
    /** Names of holdings, with what they still have. */
    held: () =>
      redis.ledger.holdings.slice(0, redis.ledger.count).map(({ holder: name, outstanding }) => [name, outstanding]),
  };
}

describe("a gateway that wants units", () => {
  test("gets them, for as long as a lease lives", () => {
    const { send, used, redis } = leased();
    expect([horizonUs, lifetimeUs]).toEqual([100 * ms, 300 * ms]);
    expect(send(startUs, "a", 1, { want: 100 })).toMatchObject({
      seq: 1,
      grant: 100,
      honoured: 0,
      durationUs: 300 * ms,
      retryAfterUs: 0,
      elsewhere: 0,
    });
    expect(redis.ledger.holdings).toEqual([
      {
        holder: "a",
        seq: 1,
        outstanding: 100,
        expiryUs: startUs + 300 * ms,
        want: 100,
        grant: 100,
        honoured: 0,
        durationUs: 300 * ms,
        retryAfterUs: 0,
      },
    ]);
    expect(used()).toEqual([100]);
  });

  test.each([
    [1000, 500],
    [66, 33],
    [65, 32],
    [64, 32],
    [40, 32],
    [32, 32],
    [20, 20],
    [1, 1],
  ])("alone gets of %i units at most %i: half of them, or all of a few", (quota, grant) => {
    const { send } = leased([limit("fixed-window", quota, minute)]);
    expect(send(startUs, "a", 1, { want: 2000 })?.grant).toBe(grant);
  });

  test("gets an even share of what is left, with those that want units as well, and the last unit", () => {
    const { send } = leased();
    expect(send(startUs, "a", 1, { want: 100 })?.grant).toBe(100);
    expect(send(startUs, "b", 1, { want: 2000 })).toMatchObject({ grant: 450, elsewhere: 100 });
    expect(send(startUs, "c", 1, { want: 2000 })).toMatchObject({ grant: 150, elsewhere: 550 });
    const scarce = leased([limit("fixed-window", 34, minute)]);
    expect(scarce.send(startUs, "a", 1, { want: 32 })?.grant).toBe(32);
    expect(scarce.send(startUs, "b", 1, { want: 5 })?.grant).toBe(1);
    expect(scarce.send(startUs, "c", 1, { want: 5 })?.grant).toBe(1);
    expect(scarce.send(startUs, "d", 1, { want: 5 })?.grant).toBe(0);
  });

  test("shares with nobody who wants none", () => {
    const { send } = leased();
    send(startUs, "a", 1, { want: 0 });
    expect(send(startUs, "b", 1, { want: 2000 })?.grant).toBe(500);
    const few = leased([limit("fixed-window", 40, minute)]);
    few.send(startUs, "a", 1, { want: 0 });
    expect(few.send(startUs, "b", 1, { want: 2000 })?.grant).toBe(32);
  });

  test("gets none of a counter that is full, and is told when it could", () => {
    const { send, redis } = leased();
    expect(redis.charge(startUs + second, 1000)).toBe(true);
    expect(send(startUs + second, "a", 1, { want: 1 })).toMatchObject({ grant: 0, retryAfterUs: 59 * second });
    expect(send(startUs + second, "b", 1, { want: 0 })).toMatchObject({ grant: 0, retryAfterUs: 0 });
  });

  test("gets what every limit of the policy has, until the first of their windows ends", () => {
    const { send, used, redis } = leased([thousand, limit("fixed-window", 10, second), bucket]);
    const nowUs = startUs + second - 200 * ms;
    expect(send(nowUs, "a", 1, { want: 50 })).toMatchObject({ grant: 10, durationUs: 200 * ms, retryAfterUs: 0 });
    expect(used().slice(0, 2)).toEqual([10, 10]);
    expect(redis.ledger.holdings[0]?.expiryUs).toBe(startUs + second);
    // The limit that takes longest decides when it may ask again.
    expect(send(nowUs, "b", 1, { want: 1 })).toMatchObject({ grant: 0, retryAfterUs: 200 * ms });
    const other = leased([limit("fixed-window", 10, second), thousand]);
    for (let i = 0; i < 100; i++) other.redis.charge(startUs + i * 500 * ms, 5);
    other.redis.charge(startUs + 50 * second, 10);
    expect(other.used()).toEqual([10, 510]);
    expect(other.send(startUs + 50 * second, "a", 1, { want: 1 })?.retryAfterUs).toBe(second);
  });
});

describe("towards the end of a window, a lease", () => {
  test.each([
    [300, 100, 300],
    [299, 100, 299],
    [100, 100, 100],
    [50, 50, 50],
    [25, 25, 25],
    // But enough that its gateway does not ask again at once.
    [10, 25, 10],
  ])("%i ms before, is for %i units of 100 that were wanted, and lives %i ms", (before, grant, lives) => {
    const { send } = leased();
    const answer = send(startUs + minute - before * ms, "a", 1, { want: 100 });
    expect(answer).toMatchObject({ grant, durationUs: lives * ms });
  });

  test("counts what its gateway keeps, and rounds up", () => {
    const { send } = leased();
    const nowUs = startUs + minute - 50 * ms;
    expect(send(nowUs - 10 * ms, "a", 1, { want: 80 })?.grant).toBe(48);
    expect(send(nowUs, "a", 2, { kept: 40, want: 61 })).toMatchObject({ honoured: 40, grant: 11 });
    expect(send(nowUs, "a", 3, { kept: 51, want: 10 })).toMatchObject({
      honoured: 51,
      grant: 0,
      retryAfterUs: 0,
    });
  });

  test("ends with the block of a sliding window", () => {
    const { send } = leased([limit("sliding-window", 1000, 10 * second, { precisionUs: second })]);
    expect(send(startUs + 900 * ms, "a", 1, { want: 10 })?.durationUs).toBe(100 * ms);
    expect(send(startUs + second, "a", 2, { want: 10 })?.durationUs).toBe(300 * ms);
  });
});

test("a lease ends with the window of the calendar", () => {
  const { send, redis } = leased();
  const [counter] = redis.counters as [Redis["counters"][number]];
  counter.rate = calendarWindow(1000, day, (window) => {
    Object.assign(window, { startUs: startUs - hour, endUs: startUs + second, nextEndUs: startUs + day });
  });
  followWindow(counter.rate, startUs);
  expect(send(startUs + second - 100 * ms, "a", 1, { want: 10 })?.durationUs).toBe(100 * ms);
});

test("a lease lives for ten seconds at most", () => {
  const { send } = leased([bucket], { horizonUs, lifetimeUs: minute });
  expect(send(startUs, "a", 1, { want: 10 })?.durationUs).toBe(10 * second);
});

describe("a message", () => {
  test("that comes again gets the same reply and changes nothing; one that was overtaken gets none", () => {
    const { send, used, held } = leased();
    const first = send(startUs, "a", 1, { want: 10 });
    send(startUs, "b", 1, { want: 20 });
    expect(send(startUs + ms, "a", 1, { want: 10 })).toEqual({ ...first, elsewhere: 20 });
    expect(used()).toEqual([30]);
    send(startUs + 2 * ms, "a", 2, { kept: 10 });
    expect(send(startUs + 3 * ms, "a", 1, { want: 10 })).toBeUndefined();
    expect(used()).toEqual([30]);
    expect(held()).toEqual([
      ["a", 10],
      ["b", 20],
    ]);
  });

  test("returns units to every counter", () => {
    const { send, used, held } = leased([thousand, limit("fixed-window", 500, minute)]);
    send(startUs, "a", 1, { want: 100 });
    expect(send(startUs + ms, "a", 2, { kept: 30, back: 20 })).toMatchObject({
      honoured: 30,
      grant: 0,
      retryAfterUs: 0,
    });
    expect(used()).toEqual([80, 80]);
    expect(held()).toEqual([["a", 30]]);
  });

  test("returns and keeps no more than was held", () => {
    const { send, used } = leased();
    send(startUs, "a", 1, { want: 100 });
    expect(send(startUs + ms, "a", 2, { kept: 90, back: 50 })?.honoured).toBe(90);
    expect(used()).toEqual([90]);
    expect(send(startUs + 2 * ms, "a", 3, { kept: 150, back: 50 })?.honoured).toBe(90);
    expect(used()).toEqual([90]);
  });

  test("of a gateway that has not received the last reply returns what that granted", () => {
    const { send, used } = leased();
    send(startUs, "a", 1, { want: 100 });
    send(startUs + ms, "a", 2, { acknowledged: 0, want: 10 });
    expect(used()).toEqual([10]);
    // This one has received it, and spent everything.
    send(startUs + 2 * ms, "a", 3, { acknowledged: 2, want: 10 });
    expect(used()).toEqual([20]);
    // What was granted and not received can be neither kept nor returned once more.
    expect(send(startUs + 3 * ms, "a", 4, { acknowledged: 2, kept: 5, back: 5 })?.honoured).toBe(0);
    expect(used()).toEqual([10]);
  });

  test("keeps and returns nothing that has expired, to the µs", () => {
    for (const [afterUs, honoured, count] of [
      [300 * ms - 1, 50, 70],
      [300 * ms, 0, 100],
    ] as const) {
      const { send, used } = leased();
      send(startUs, "a", 1, { want: 100 });
      expect(send(startUs + afterUs, "a", 2, { kept: 50, back: 30 })?.honoured).toBe(honoured);
      expect(used()).toEqual([count]);
    }
    const { send, used } = leased();
    send(startUs, "a", 1, { want: 100 });
    send(startUs + 300 * ms, "a", 2, { acknowledged: 0 });
    expect(used()).toEqual([100]);
  });
});

describe("the ledger", () => {
  test("forgets holdings that have expired, to the µs, when another gateway sends a message", () => {
    const { send, held } = leased();
    send(startUs, "a", 1, { want: 10 });
    send(startUs + ms, "b", 1, { want: 20 });
    send(startUs + 300 * ms, "c", 1, { want: 30 });
    expect(held()).toEqual([
      ["b", 20],
      ["c", 30],
    ]);
    // A gateway whose own holding has expired is still known: its messages have numbers.
    expect(send(startUs + 400 * ms, "b", 1)).toMatchObject({ seq: 1, grant: 20 });
    expect(send(startUs + 400 * ms, "b", 2)).toMatchObject({ seq: 2, honoured: 0, grant: 0 });
  });

  test("believes no expiry that only a clock which stepped back explains", () => {
    const { send, redis } = leased();
    send(startUs + 30 * second, "a", 1, { want: 10 });
    send(startUs, "b", 1, { want: 10 });
    expect(redis.ledger.holdings.map(({ expiryUs }) => expiryUs)).toEqual([startUs + 10 * second, startUs + 300 * ms]);
  });

  test("counts units as out up to the µs at which they expire", () => {
    const { send, redis } = leased();
    send(startUs, "a", 1, { want: 10 });
    send(startUs + ms, "b", 1, { want: 20 });
    const outAt = (us: number) => [
      ledgers.unitsOut(redis.ledger, startUs + us),
      ledgers.unitsElsewhere(redis.ledger, 0, startUs + us),
      ledgers.unitsElsewhere(redis.ledger, 1, startUs + us),
    ];
    expect(outAt(0)).toEqual([30, 20, 10]);
    expect(outAt(300 * ms)).toEqual([30, 20, 10]);
    expect(outAt(300 * ms + 1)).toEqual([20, 20, 0]);
    expect(outAt(301 * ms + 1)).toEqual([0, 0, 0]);
  });

  test("is kept until its leases have expired, and until a bucket has refilled what they have", () => {
    const { send, redis } = leased();
    const lifetime = (limits: readonly Limit[], us: number) =>
      ledgers.ledgerLifetimeUs(redis.ledger, leased(limits).redis.counters, limits.length, startUs + us);
    expect(lifetime([bucket], 0)).toBe(1);
    send(startUs, "a", 1, { want: 10 });
    send(startUs + ms, "b", 1, { want: 20 });
    expect(lifetime([thousand], ms)).toBe(300 * ms + 1);
    expect(lifetime([bucket], ms)).toBe(300 * ms + 300 * ms + 1);
    expect(lifetime([limit("token-bucket", 50, second), thousand, bucket], ms)).toBe(300 * ms + 600 * ms + 1);
    expect(lifetime([thousand], second)).toBe(1);
  });
});

describe("units of a bucket that are out", () => {
  const left = (counter: memory.MemoryCounter, nowUs: number) => {
    const copy = new Counter(rates.rateOf(bucket));
    copy.state = counter;
    return copy.peek(nowUs).remaining;
  };

  test("do not refill until they are spent or expire", () => {
    const { send, redis } = leased([bucket]);
    send(startUs, "a", 1, { want: 40 });
    const [counter] = redis.counters as [Redis["counters"][number]];
    const owing = (us: number) => {
      const copy = { ...counter };
      ledgers.oweWhatIsOut(redis.ledger, copy.rate, copy, startUs + us);
      return left(copy, startUs + us);
    };
    expect(left(counter, startUs + 200 * ms)).toBe(80);
    expect(owing(0)).toBe(60);
    expect(owing(200 * ms)).toBe(60);
    expect(owing(300 * ms)).toBe(60);
    expect(owing(500 * ms)).toBe(80);
  });

  test("of several gateways do not refill, each up to its own end", () => {
    const { send, redis } = leased([bucket]);
    send(startUs, "a", 1, { want: 40 });
    send(startUs + 100 * ms, "b", 1, { want: 10 });
    const [counter] = redis.counters as [Redis["counters"][number]];
    const owing = (us: number) => {
      const copy = { ...counter };
      ledgers.oweWhatIsOut(redis.ledger, copy.rate, copy, startUs + us);
      return left(copy, startUs + us);
    };
    expect(owing(300 * ms)).toBe(50);
    // Ten have refilled since the first lease expired.
    expect(owing(400 * ms)).toBe(60);
  });

  test("are owed by the exchange itself, before it grants more", () => {
    const { send } = leased([bucket]);
    expect(send(startUs, "a", 1, { want: 50 })?.grant).toBe(50);
    expect(send(startUs + 200 * ms, "a", 2, { kept: 50, want: 60 })).toMatchObject({ honoured: 50, grant: 32 });
  });

  test("are owed beside what a bucket with initial does not begin with, if its counter was lost, and alone otherwise", () => {
    const shaped = { ...bucket, initial: 60 };
    const { send, redis } = leased([shaped]);
    send(startUs, "a", 1, { want: 10 });
    const remaining = (counter: Counter, us: number) => {
      ledgers.oweWhatIsOut(redis.ledger, counter.rate, counter.state, startUs + us);
      return counter.peek(startUs + us, 0).remaining;
    };
    expect(remaining(new Counter(rates.rateOf(shaped)), 0)).toBe(50);
    const used = new Counter(rates.rateOf(shaped));
    used.ask(startUs - second, 1);
    expect(remaining(used, 0)).toBe(90);
  });

  test("make no window owe anything", () => {
    const { send, redis } = leased();
    send(startUs, "a", 1, { want: 40 });
    const fresh = memory.memoryCounter();
    ledgers.oweWhatIsOut(redis.ledger, rates.rateOf(thousand), fresh, startUs);
    expect(fresh).toEqual(memory.memoryCounter());
  });
});

describe("a limit may be leased", () => {
  const isLeasable = (one: Limit) => ledgers.isLeasable(rates.rateOf(one), holder.leaseParameters);

  test.each([
    ["a bucket that holds the refill of half a second", limit("token-bucket", 100, second, { burst: 50 })],
    ["a fixed window of half a second", limit("fixed-window", 10, 500 * ms)],
    [
      "a sliding window with blocks of half a second",
      limit("sliding-window", 10, 5 * second, { precisionUs: 500 * ms }),
    ],
  ])("if it is %s", (_, one) => {
    expect(isLeasable(one)).toBe(true);
  });

  test.each([
    ["a smaller bucket", limit("token-bucket", 100, second, { burst: 49 })],
    ["a shorter fixed window", limit("fixed-window", 10, 499 * ms)],
    ["a total for ever, whose units would be lost with a gateway", limit("fixed-window", 10, lifetimeWindowUs)],
    ["a sliding window with shorter blocks", limit("sliding-window", 10, 4990 * ms, { precisionUs: 499 * ms })],
    ["a sliding log", limit("sliding-log", 10, minute)],
    ["a leaky bucket", limit("leaky-bucket", 10, minute)],
    ["a limit of slots", limit("concurrency", 10, minute)],
  ])("but not if it is %s", (_, one) => {
    expect(isLeasable(one)).toBe(false);
  });
});
