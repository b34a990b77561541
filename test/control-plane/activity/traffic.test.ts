import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Traffic } from "../../../control-plane/src/activity/traffic.ts";

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
const startMs = 1_900_000_000_000 - (1_900_000_000_000 % dayMs);
const none = { admitted: 0, refused: 0, shadowRefused: 0, delayed: 0, degraded: 0 };
const one = { ...none, admitted: 1 };

describe("traffic", () => {
  it("is kept by second and by minute", () => {
    const traffic = new Traffic();
    traffic.add("shop/books", startMs + 500, startMs + 1_000, {
      ...one,
      refused: 2,
      delayed: 3,
      shadowRefused: 4,
      degraded: 5,
    });
    traffic.add("shop/books", startMs + 1_500, startMs + 2_000, one);
    const first = { atMs: startMs, admitted: 1, refused: 2, delayed: 3, shadowRefused: 4, degraded: 5 };
    expect(traffic.points("shop/books", "second", startMs, startMs + hourMs)).toEqual([
      first,
      { ...none, atMs: startMs + 1_000, admitted: 1 },
    ]);
    expect(traffic.points("shop/books", "minute", startMs, startMs + hourMs)).toEqual([{ ...first, admitted: 2 }]);
    expect(traffic.points("shop/pens", "second", startMs, startMs + hourMs)).toEqual([]);
  });

  it("of a longer time is spread over its seconds, and none is lost", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100_000 }), fc.integer({ min: 0, max: 5_000_000 }), (count, lengthMs) => {
        const traffic = new Traffic();
        const toMs = startMs + 2 * hourMs;
        traffic.add("a/b", toMs - lengthMs, toMs, { ...none, refused: count });
        const points = traffic.points("a/b", "second", 0, toMs + 1_000);
        expect(points.reduce((sum, { refused }) => sum + refused, 0)).toBe(count);
        for (const { atMs } of points) expect(atMs).toBeGreaterThanOrEqual(toMs - Math.min(lengthMs, hourMs) - 1_000);
      }),
      { numRuns: 10 },
    );
    const traffic = new Traffic();
    traffic.add("a/b", startMs, startMs + 10_000, { ...none, refused: 20 });
    const perSecond = traffic.points("a/b", "second", 0, startMs + hourMs).map(({ refused }) => refused);
    expect(perSecond).toEqual(Array(10).fill(2));
  });

  it("is forgotten after an hour by second, and after a day by minute", () => {
    const traffic = new Traffic();
    traffic.add("a/b", startMs, startMs + 500, one);
    const kept = (atMs: number) => {
      traffic.forget(atMs);
      return (["second", "minute"] as const).map((step) => traffic.points("a/b", step, 0, atMs).length);
    };
    expect(kept(startMs + hourMs)).toEqual([1, 1]);
    expect(kept(startMs + hourMs + minuteMs)).toEqual([0, 1]);
    expect(kept(startMs + dayMs)).toEqual([0, 1]);
    expect(kept(startMs + dayMs + hourMs)).toEqual([0, 0]);
  });

  it("takes no more memory than it may, and says so", () => {
    const traffic = new Traffic(4);
    for (const name of ["a/1", "a/2", "a/3"]) traffic.add(name, startMs, startMs + 500, one);
    expect(traffic.isFull).toBe(true);
    expect(traffic.points("a/2", "second", 0, startMs + 1)).toHaveLength(1);
    expect(traffic.points("a/3", "second", 0, startMs + 1)).toHaveLength(0);
    traffic.forget(startMs + 2 * dayMs);
    expect(traffic.isFull).toBe(false);
    traffic.add("a/3", startMs + 2 * dayMs, startMs + 2 * dayMs, one);
    expect(traffic.points("a/3", "second", 0, startMs + 3 * dayMs)).toHaveLength(1);
  });
});
