import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { concurrency, renewSlots } from "../../../limiter/src/algorithms/concurrency.ts";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import type { SlidingWindow } from "../../../limiter/src/algorithms/sliding-window.ts";
import { Counter, day, hour, maxUnits, minute, ms, second, startUs } from "./counter.ts";

const threeAtOnce = concurrency(3, minute);
/** The beginning of a tick of 6 s. */
const tickUs = startUs - (startUs % (6 * second));
const three = () => new Counter(threeAtOnce);

const renew = (counter: Counter, nowUs: number, heldAtUs: number, slots = 1) =>
  renewSlots(counter.rate as SlidingWindow, counter.state, memoryRing, nowUs, heldAtUs, slots);

describe("concurrency", () => {
  test("lets its quota be held at once, and refuses the next without a wait, since a slot may be free at any moment", () => {
    const counter = three();
    expect(counter.ask(tickUs)).toEqual({
      allowed: true,
      limit: 3,
      remaining: 2,
      retryAfterUs: 0,
      resetAfterUs: minute,
      delayUs: 0,
    });
    expect(counter.allowedOf(3, tickUs)).toBe(2);
    expect(counter.ask(tickUs)).toEqual({
      allowed: false,
      limit: 3,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: minute,
      delayUs: 0,
    });
  });

  test("gives a slot to the next request as soon as it is freed", () => {
    const counter = three();
    counter.allowedOf(3, tickUs);
    for (let i = 1; i <= 100; i++) {
      expect(counter.allows(tickUs + i)).toBe(false);
      counter.refund(1, tickUs + i, tickUs);
      expect(counter.allows(tickUs + i)).toBe(true);
    }
  });

  test("frees a slot that was taken ticks ago", () => {
    const counter = three();
    counter.ask(tickUs);
    counter.ask(tickUs + 20 * second);
    counter.ask(tickUs + 40 * second);
    counter.refund(1, tickUs + 50 * second, tickUs);
    expect(counter.peek(tickUs + 50 * second).remaining).toBe(1);
    // The other two are still held.
    expect(counter.peek(tickUs + 77 * second).remaining).toBe(1);
    expect(counter.peek(tickUs + 78 * second).remaining).toBe(2);
    expect(counter.peek(tickUs + 96 * second).remaining).toBe(3);
  });

  test("frees a slot that is not renewed when its life is over, counted from the beginning of its tick", () => {
    for (const takenUs of [tickUs, tickUs + 3 * second, tickUs + 6 * second - 1]) {
      const counter = three();
      counter.ask(takenUs, 3);
      expect(counter.peek(tickUs + minute - 1).allowed).toBe(false);
      expect(counter.peek(tickUs + minute).remaining).toBe(3);
    }
  });

  test("never lets more slots be held than there are", () => {
    expect(three().ask(tickUs, 4)).toMatchObject({ allowed: false, remaining: 3, retryAfterUs: never });
    expect(three().ask(tickUs, 3)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("holds slots equally long with a quota of 2^31, and with lives of 1 ms and of 366 d", () => {
    for (const ttlUs of [ms, 366 * day]) {
      const counter = new Counter(concurrency(maxUnits, ttlUs));
      const fromUs = startUs - (startUs % (ttlUs / 10));
      expect(counter.ask(fromUs, maxUnits)).toMatchObject({ allowed: true, remaining: 0 });
      expect(counter.peek(fromUs + ttlUs - 1).allowed).toBe(false);
      expect(counter.peek(fromUs + ttlUs).remaining).toBe(maxUnits);
    }
  });

  test("has every slot free after an idle year", () => {
    const counter = three();
    counter.ask(tickUs, 3);
    expect(counter.allowedOf(4, tickUs + 365 * day)).toBe(3);
  });

  test("is kept for a slot's life and a tenth of it", () => {
    const counter = three();
    counter.ask(tickUs + second);
    expect(lifetimeUs(counter.rate, counter.state, tickUs + second)).toBe(65 * second);
  });

  test("admits nobody under a smaller quota until enough have left", () => {
    const counter = three();
    counter.allowedOf(3, tickUs);
    counter.rate = concurrency(2, minute);
    counter.refund(1, tickUs, tickUs);
    expect(counter.ask(tickUs)).toMatchObject({ allowed: false, limit: 2, remaining: 0 });
    counter.refund(1, tickUs, tickUs);
    expect(counter.allowedOf(2, tickUs)).toBe(1);
    counter.rate = concurrency(4, minute);
    expect(counter.allowedOf(3, tickUs)).toBe(2);
  });
});

describe("a slot that is renewed", () => {
  test("is held for another life, and others are free in time", () => {
    const counter = three();
    counter.allowedOf(3, tickUs);
    const later = tickUs + 30 * second;
    expect(renew(counter, later + 1, tickUs)).toBe(later);
    expect(counter.peek(tickUs + minute - 1).remaining).toBe(0);
    expect(counter.peek(tickUs + minute).remaining).toBe(2);
    expect(counter.peek(later + minute - 1).remaining).toBe(2);
    expect(counter.peek(later + minute).remaining).toBe(3);
  });

  test("may be held for ever", () => {
    const counter = three();
    counter.ask(tickUs, 3);
    let heldAtUs: number | undefined = tickUs;
    for (let i = 1; i <= 100; i++) {
      heldAtUs = renew(counter, tickUs + i * 50 * second, heldAtUs as number, 3);
      expect(heldAtUs).toBe(tickUs + Math.floor((i * 50) / 6) * 6 * second);
      expect(counter.peek(tickUs + i * 50 * second).remaining).toBe(0);
    }
  });

  test("within its tick stays where it is", () => {
    const counter = three();
    counter.ask(tickUs, 2);
    expect(renew(counter, tickUs + 5 * second, tickUs, 2)).toBe(tickUs);
    expect(counter.peek(tickUs + 5 * second).remaining).toBe(1);
  });

  test("after it was lost is taken again if one is free", () => {
    const counter = three();
    counter.ask(tickUs);
    expect(renew(counter, tickUs + minute, tickUs)).toBe(tickUs + minute);
    expect(counter.peek(tickUs + minute).remaining).toBe(2);
  });

  test("after it was lost and all were taken cannot be had, and takes no other's", () => {
    const counter = three();
    counter.ask(tickUs);
    counter.ask(tickUs + minute, 3);
    expect(renew(counter, tickUs + minute + 1, tickUs)).toBeUndefined();
    expect(counter.peek(tickUs + minute + 1).remaining).toBe(0);
    expect(counter.peek(tickUs + 2 * minute - 1).remaining).toBe(0);
    expect(counter.peek(tickUs + 2 * minute).remaining).toBe(3);
  });

  test("after another of its tick was freed stays held", () => {
    const counter = three();
    counter.ask(tickUs, 2);
    counter.refund(1, tickUs, tickUs);
    expect(renew(counter, tickUs + 12 * second, tickUs)).toBe(tickUs + 12 * second);
    expect(counter.peek(tickUs + 12 * second).remaining).toBe(2);
  });

  test("under a quota smaller than what is held stays held, and nobody is admitted until enough have left", () => {
    const counter = three();
    counter.allowedOf(3, tickUs);
    counter.rate = concurrency(1, minute);
    const later = tickUs + 12 * second;
    for (let i = 0; i < 3; i++) expect(renew(counter, later, tickUs)).toBe(later);
    expect(counter.state.count).toBe(3);
    expect(counter.allows(later + minute - 1)).toBe(false);
    for (const left of [0, 0, 1]) {
      counter.refund(1, later + minute - 1, later);
      expect(counter.peek(later + minute - 1).remaining).toBe(left);
    }
  });

  test("under a quota raised and lowered while all are held stays held, and so do those admitted meanwhile", () => {
    const counter = three();
    counter.allowedOf(3, tickUs);
    counter.rate = concurrency(5, minute);
    expect(counter.allowedOf(3, tickUs + 6 * second)).toBe(2);
    counter.rate = concurrency(2, minute);
    const later = tickUs + 54 * second;
    for (let i = 0; i < 3; i++) expect(renew(counter, later, tickUs)).toBe(later);
    for (let i = 0; i < 2; i++) expect(renew(counter, later, tickUs + 6 * second)).toBe(later);
    expect(counter.state.count).toBe(5);
    // There were five, and a sixth cannot be had by renewing one that nobody holds.
    expect(renew(counter, later, tickUs)).toBeUndefined();
    expect(counter.allows(later)).toBe(false);
    expect(counter.state.count).toBe(5);
  });

  test("with some of its units lost keeps the others, and is held whole once there is room", () => {
    const counter = new Counter(concurrency(4, minute));
    counter.ask(tickUs, 3);
    counter.refund(1, tickUs, tickUs);
    counter.ask(tickUs + 6 * second, 2);
    const later = tickUs + 12 * second;
    expect(renew(counter, later, tickUs, 3)).toBeUndefined();
    expect(counter.state.count).toBe(4);
    // This lasts until the life of the two held ones is over, and that of those which another took.
    expect(counter.peek(later + minute - 1).remaining).toBe(2);
    expect(counter.peek(later + minute).remaining).toBe(4);
    expect(renew(counter, later + minute, tickUs, 3)).toBe(later + minute);
    expect(counter.peek(later + minute).remaining).toBe(1);
  });

  test("after it was lost and all were taken is held again as soon as one is free", () => {
    const counter = three();
    counter.ask(tickUs);
    counter.allowedOf(3, tickUs + minute);
    const later = tickUs + minute + 6 * second;
    expect(renew(counter, later, tickUs)).toBeUndefined();
    counter.refund(1, later, tickUs + minute);
    expect(renew(counter, later, tickUs)).toBe(later);
    expect(counter.peek(later).remaining).toBe(0);
  });

  test("after the clock stepped back counts twice until the life of the first is over", () => {
    const counter = three();
    counter.ask(tickUs);
    const back = tickUs - hour;
    expect(renew(counter, back, tickUs)).toBe(back);
    expect(counter.peek(back).remaining).toBe(1);
    expect(renew(counter, back + 30 * second, back)).toBe(back + 30 * second);
    expect(counter.peek(back + minute).remaining).toBe(2);
  });

  test("after the clock stepped back while all are held is lost, and is had again once the life of what moved is over", () => {
    const counter = three();
    counter.ask(tickUs, 3);
    const back = tickUs - hour + second;
    // Its moment is gone, and it counts as of the end of the tick that the clock shows.
    expect(renew(counter, back, tickUs)).toBeUndefined();
    expect(counter.head).toEqual({ atUs: tickUs - hour + 6 * second, count: 3 });
    const overUs = tickUs - hour + 66 * second;
    expect(renew(counter, overUs - 1, tickUs)).toBeUndefined();
    for (let i = 0; i < 3; i++) expect(renew(counter, overUs, tickUs)).toBe(overUs);
    expect(renew(counter, overUs, tickUs)).toBeUndefined();
    expect(counter.state.count).toBe(3);
  });
});

test("whatever the quota is edited to, slots renewed in time are held, and none is admitted beyond the quota", () => {
  const event = fc.record({
    afterUs: fc.nat(20 * second),
    what: fc.constantFrom("ask", "ask", "end", "quota"),
    of: fc.nat(1_000),
  });
  fc.assert(
    fc.property(fc.array(event, { minLength: 1, maxLength: 60, size: "max" }), (events) => {
      const counter = three();
      let held: { atUs: number; slots: number }[] = [];
      let [nowUs, quota, largest] = [tickUs, 3, 3];
      const slots = () => held.reduce((sum, one) => sum + one.slots, 0);
      for (const { afterUs, what, of } of events) {
        nowUs += afterUs;
        // Each is renewed within 20 s, a third of its life.
        held = held.map((one) => {
          const atUs = renew(counter, nowUs, one.atUs, one.slots);
          expect(atUs).toBeDefined();
          return { ...one, atUs: atUs as number };
        });
        expect(counter.state.count).toBe(slots());
        if (what === "quota") {
          quota = 1 + (of % 9);
          largest = Math.max(largest, quota);
          counter.rate = concurrency(quota, minute);
        } else if (what === "end" && held.length > 0) {
          const [ended] = held.splice(of % held.length, 1) as [(typeof held)[0]];
          counter.refund(ended.slots, nowUs, ended.atUs);
        } else if (what === "ask") {
          const asked = 1 + (of % 3);
          const { allowed } = counter.ask(nowUs, asked);
          expect(allowed).toBe(slots() + asked <= quota);
          if (allowed) held.push({ atUs: counter.state.atUs, slots: asked });
        }
        expect(slots()).toBeLessThanOrEqual(largest);
      }
    }),
    { numRuns: 300 },
  );
});

test("a limit of concurrency counts in tenths of a slot's life", () => {
  expect(threeAtOnce).toEqual({
    algorithm: "concurrency",
    quota: 3,
    windowUs: minute,
    tickUs: 6 * second,
    ticks: 9,
    toleranceUs: second,
  } satisfies SlidingWindow);
});
