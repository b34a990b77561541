// Units that were admitted while a counter was not called are charged afterwards, as if they had been charged in time, as far
// as the counter goes.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chargeUpTo } from "../../../limiter/src/algorithms/deferred-charge.ts";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { takenCounter } from "./taken-counter.ts";

const second = 1_000_000;
const startUs = 1_700_000_000 * second;
const windowUs = 100 * second;

function counterOf(algorithm: Algorithm, quota: number, rateWindowUs = windowUs) {
  const counter = takenCounter(algorithm, quota, rateWindowUs);
  const { rate, state } = counter;
  return { ...counter, chargeUpTo: (atUs: number, units: number) => chargeUpTo(rate, state, memoryRing, atUs, units) };
}

describe.each<Algorithm>(["token-bucket", "fixed-window", "sliding-window", "sliding-log"])("%s:", (algorithm) => {
  it("late units are charged one by one while there are any left", () => {
    const counter = counterOf(algorithm, 10);
    counter.take(startUs, 3);
    expect(counter.chargeUpTo(startUs, 4)).toBe(4);
    expect(counter.left(startUs)).toBe(3);
    expect([1, 2, 3, 4].map(() => counter.take(startUs, 1))).toEqual([true, true, true, false]);
  });

  it("late units are not charged beyond what is left, and delay nobody for longer than a second", () => {
    const counter = counterOf(algorithm, 10);
    counter.take(startUs, 8);
    expect(counter.chargeUpTo(startUs, 2 ** 31)).toBe(2);
    expect(counter.left(startUs)).toBe(0);
    expect(counter.take(startUs + 2 * windowUs, 10)).toBe(true);
  });

  it("late units are not charged if nothing is left", () => {
    const counter = counterOf(algorithm, 10);
    counter.take(startUs, 10);
    const { atUs, count } = counter.state;
    expect(counter.chargeUpTo(startUs, 5)).toBe(0);
    expect(counter.state).toMatchObject({ atUs, count });
  });

  it("late units are charged if a single one is left", () => {
    const counter = counterOf(algorithm, 10);
    counter.take(startUs, 9);
    expect(counter.chargeUpTo(startUs, 3)).toBe(1);
    expect(counter.left(startUs)).toBe(0);
  });
});

describe("late units of a counter that is full", () => {
  it.each(["fixed-window", "sliding-window", "sliding-log"] as const)(
    "of %s leave it as it is, also later",
    (algorithm) => {
      const counter = counterOf(algorithm, 10);
      counter.take(startUs, 10);
      const before = { ...counter.state };
      expect(counter.chargeUpTo(startUs + 30 * second, 5)).toBe(0);
      expect(counter.state).toMatchObject({ atUs: before.atUs, count: 10, length: before.length });
    },
  );
});

describe("late units of a leaky-bucket", () => {
  it("are charged up to its queue, the one that departs, and what departs within a second", () => {
    const counter = counterOf("leaky-bucket", 100, 10 * second);
    counter.take(startUs, 90);
    expect(counter.chargeUpTo(startUs, 2)).toBe(2);
    expect(counter.left(startUs)).toBe(9);
    expect(counter.chargeUpTo(startUs, 100)).toBe(19);
    expect(counter.left(startUs)).toBe(0);
  });
});

describe("late units of a token-bucket that refills fast", () => {
  it("are charged to what refills within a second as well, which has refilled by then", () => {
    const counter = counterOf("token-bucket", 100, second);
    counter.take(startUs, 100);
    expect(counter.chargeUpTo(startUs, 60)).toBe(60);
    expect(counter.take(startUs + 600_000, 1)).toBe(false);
    expect(counter.take(startUs + 610_000, 1)).toBe(true);
  });

  it("leave no more, after outages of up to half a second, than if it had been called all the time", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ afterUs: fc.nat(50_000), reached: fc.boolean() }), { minLength: 1, maxLength: 200 }),
        (requests) => {
          const asked = counterOf("token-bucket", 100, second);
          const away = counterOf("token-bucket", 100, second);
          let atUs = startUs;
          let owed = 0;
          let awaySinceUs = startUs;
          for (const { afterUs, reached } of requests) {
            atUs += afterUs;
            if (atUs - awaySinceUs > 500_000 || reached) {
              if (owed > 0) away.chargeUpTo(atUs, owed);
              owed = 0;
              awaySinceUs = atUs;
            }
            // What one counter admits is charged to the other late.
            if (asked.take(atUs, 1)) owed += 1;
          }
          if (owed > 0) away.chargeUpTo(atUs, owed);
          // The counter is never fuller than the one that was called: what passed has been charged, at the latest by now.
          expect(away.left(atUs)).toBeLessThanOrEqual(asked.left(atUs));
        },
      ),
    );
  });
});
