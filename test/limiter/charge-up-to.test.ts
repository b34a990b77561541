// Units that were taken while a counter was not asked are charged afterwards: as if they had been asked for in time, as far as the
// counter goes.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chargeUpTo } from "../../limiter/src/algorithms/deferred-charge.ts";
import type { Algorithm } from "../../limiter/src/algorithms/limit.ts";
import { memoryRing } from "../../limiter/src/algorithms/memory-ring.ts";
import { takenCounter } from "./taken-counter.ts";

const second = 1_000_000;
const startUs = 1_700_000_000 * second;
const windowUs = 100 * second;

function counterOf(algorithm: Algorithm, quota: number, rateWindowUs = windowUs) {
  const counter = takenCounter(algorithm, quota, rateWindowUs);
  const { rate, state } = counter;
  return { ...counter, chargeUpTo: (atUs: number, units: number) => chargeUpTo(rate, state, memoryRing, atUs, units) };
}

describe.each<Algorithm>(["token-bucket", "fixed-window", "sliding-window", "sliding-log"])("of a %s", (algorithm) => {
  it("they are charged one by one while there are any", () => {
    const counter = counterOf(algorithm, 10);
    counter.take(startUs, 3);
    expect(counter.chargeUpTo(startUs, 4)).toBe(4);
    expect(counter.left(startUs)).toBe(3);
    expect([1, 2, 3, 4].map(() => counter.take(startUs, 1))).toEqual([true, true, true, false]);
  });

  it("what is not there is not charged, and keeps nobody waiting for longer than a second", () => {
    const counter = counterOf(algorithm, 10);
    counter.take(startUs, 8);
    expect(counter.chargeUpTo(startUs, 2 ** 31)).toBe(2);
    expect(counter.left(startUs)).toBe(0);
    expect(counter.take(startUs + 2 * windowUs, 10)).toBe(true);
  });

  it("nothing is charged where nothing is there", () => {
    const counter = counterOf(algorithm, 10);
    counter.take(startUs, 10);
    const { atUs, count } = counter.state;
    expect(counter.chargeUpTo(startUs, 5)).toBe(0);
    expect(counter.state).toMatchObject({ atUs, count });
  });
});

describe("of a token-bucket that refills fast", () => {
  it("what refills within a second is charged as well, and has refilled then", () => {
    const counter = counterOf("token-bucket", 100, second);
    counter.take(startUs, 100);
    expect(counter.chargeUpTo(startUs, 60)).toBe(60);
    expect(counter.take(startUs + 600_000, 1)).toBe(false);
    expect(counter.take(startUs + 610_000, 1)).toBe(true);
  });

  it("after stutters of up to half a second it holds no more than one that was asked all the time", () => {
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
            // What the one admits, the other is told of late.
            if (asked.take(atUs, 1)) owed += 1;
          }
          if (owed > 0) away.chargeUpTo(atUs, owed);
          // Never fuller than the one that was asked: what passed is charged, at the latest by now.
          expect(away.left(atUs)).toBeLessThanOrEqual(asked.left(atUs));
        },
      ),
    );
  });
});
