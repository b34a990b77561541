import { countKey, largestCounts, newKeyCounts } from "@sluice/limiter/sketch/key-counts.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

const streams = fc.array(
  fc.record({
    key: fc.oneof(
      { weight: 3, arbitrary: fc.integer({ min: 0, max: 9 }).map((i) => `often${i}`) },
      { weight: 2, arbitrary: fc.integer({ min: 0, max: 400 }).map((i) => `seldom${i}`) },
      { weight: 1, arbitrary: fc.constantFrom("__proto__", "constructor", "", "1", "01") },
    ),
    amount: fc.integer({ min: 1, max: 30 }),
  }),
  { maxLength: 500 },
);

function truthOf(stream: readonly { key: string; amount: number }[]): Map<string, number> {
  const truth = new Map<string, number>();
  for (const { key, amount } of stream) truth.set(key, (truth.get(key) ?? 0) + amount);
  return truth;
}

describe("the counts of keys", () => {
  it("are never too high, and too low by no more than the error, which is at most 2 × total ÷ capacity", () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 60 }), (stream, capacity) => {
        const keys = newKeyCounts(capacity);
        for (const { key, amount } of stream) countKey(keys, key, amount);
        const total = stream.reduce((sum, { amount }) => sum + amount, 0);
        expect(Object.keys(keys.counts)).toHaveLength(keys.size);
        expect(keys.size).toBeLessThanOrEqual(capacity);
        expect(keys.error).toBeLessThanOrEqual((2 * total) / capacity);
        for (const [key, count] of truthOf(stream)) {
          const counted = keys.counts[key] ?? 0;
          expect(counted).toBeLessThanOrEqual(count);
          expect(count).toBeLessThanOrEqual(counted + keys.error);
        }
      }),
    );
  });

  it("are exact while there is room", () => {
    const keys = newKeyCounts(3);
    for (const key of ["a", "b", "a", "c", "a"]) countKey(keys, key, 1);
    expect([keys.counts["a"], keys.counts["b"], keys.counts["c"], keys.error]).toEqual([3, 1, 1, 0]);
  });

  it("find the frequent keys in a flood of keys that come once", () => {
    const keys = newKeyCounts(64);
    for (let i = 0; i < 100_000; i++) countKey(keys, i % 10 === 0 ? `frequent${i % 50}` : `once${i}`, 1);
    const { keys: largest } = largestCounts(keys, 5);
    expect(largest.sort()).toEqual(["frequent0", "frequent10", "frequent20", "frequent30", "frequent40"]);
  });
});

describe("the largest counts", () => {
  it("are as many as asked for, none smaller than one left out, and say what a key left out came at most", () => {
    fc.assert(
      fc.property(
        streams,
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 30 }),
        (stream, capacity, most) => {
          const keys = newKeyCounts(capacity);
          for (const { key, amount } of stream) countKey(keys, key, amount);
          const largest = largestCounts(keys, most);
          const sorted = Object.values(keys.counts).sort((a, b) => b - a);
          expect([...largest.counts].sort((a, b) => b - a)).toEqual(sorted.slice(0, most));
          for (const [i, key] of largest.keys.entries()) expect(keys.counts[key]).toBe(largest.counts[i]);
          const listed = new Set(largest.keys);
          for (const [key, count] of truthOf(stream)) {
            if (!listed.has(key)) expect(count).toBeLessThanOrEqual(largest.unlisted);
          }
        },
      ),
    );
  });
});
