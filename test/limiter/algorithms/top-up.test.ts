// A top-up by hand returns at most the units that count, whenever they were taken.

import { describe, expect, it } from "vitest";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { topUp } from "../../../limiter/src/algorithms/top-up.ts";
import { takenCounter } from "./taken-counter.ts";

const second = 1_000_000;
const startUs = 1_700_000_000 * second;
const windowUs = 100 * second;

function counterOf(algorithm: Algorithm, quota: number) {
  const counter = takenCounter(algorithm, quota, windowUs);
  const { rate, state } = counter;
  return { ...counter, topUp: (atUs: number, units: number) => topUp(rate, state, memoryRing, atUs, units) };
}

describe.each<Algorithm>(["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"])(
  "units topped up in a %s",
  (algorithm) => {
    it("are available at once, one by one", () => {
      const counter = counterOf(algorithm, 10);
      while (counter.take(startUs, 1));
      expect(counter.left(startUs)).toBe(0);
      const capacity = algorithm === "leaky-bucket" ? 11 : 10;
      counter.topUp(startUs, 3);
      expect(counter.left(startUs)).toBe(3);
      expect([1, 2, 3, 4].map(() => counter.take(startUs, 1))).toEqual([true, true, true, false]);
      counter.topUp(startUs, 2 ** 31);
      expect(counter.left(startUs)).toBe(capacity);
    });

    it("never exceed what it holds, and a full counter gets none", () => {
      const counter = counterOf(algorithm, 10);
      counter.take(startUs, 2);
      counter.topUp(startUs, 5);
      expect(counter.left(startUs)).toBe(algorithm === "leaky-bucket" ? 11 : 10);
      while (counter.take(startUs, 1));
      counter.topUp(startUs + 3 * windowUs, 5);
      expect(counter.left(startUs + 3 * windowUs)).toBe(algorithm === "leaky-bucket" ? 11 : 10);
    });
  },
);

describe.each<Algorithm>(["sliding-window", "sliding-log"])("units topped up in a %s", (algorithm) => {
  it("are the newest, over many ticks: the oldest become free when their time is over", () => {
    const counter = counterOf(algorithm, 10);
    for (let tick = 0; tick < 3; tick++) counter.take(startUs + tick * 30 * second, 2);
    const nowUs = startUs + 95 * second;
    counter.topUp(nowUs, 3);
    // What still counts is two units of the first tick and one of the second.
    expect(counter.left(nowUs)).toBe(7);
    expect(counter.left(startUs + 111 * second)).toBe(9);
    expect(counter.left(startUs + 141 * second)).toBe(10);
  });

  it("leave the window's guarantee intact for those that were not topped up", () => {
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 48271) % 2147483647;
      return seed % below;
    };
    const counter = counterOf(algorithm, 20);
    // By second: what was taken and has not been returned; the newest is returned first.
    const taken: { atUs: number; units: number }[] = [];
    let nowUs = startUs;
    for (let step = 0; step < 3000; step++) {
      nowUs += random(12) * second;
      if (random(5) === 0) {
        const units = 1 + random(15);
        const counts = 20 - counter.left(nowUs);
        counter.topUp(nowUs, units);
        expect(20 - counter.left(nowUs)).toBe(Math.max(0, counts - units));
        for (let back = Math.min(units, counts); back > 0; ) {
          const newest = taken.at(-1) as { atUs: number; units: number };
          const part = Math.min(back, newest.units);
          newest.units -= part;
          back -= part;
          if (newest.units === 0) taken.pop();
        }
      } else {
        const units = 1 + random(5);
        if (counter.take(nowUs, units)) taken.push({ atUs: nowUs, units });
      }
      const within = taken.filter(({ atUs }) => atUs > nowUs - windowUs).reduce((sum, { units }) => sum + units, 0);
      expect(within).toBeLessThanOrEqual(20);
    }
  });
});
