import { countKey, errorOf, type KeyCounts, largestCounts, newKeyCounts } from "@sluice/limiter/sketch/key-counts.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

const streams = fc.array(
  fc.record({
    key: fc.oneof(
      { weight: 3, arbitrary: fc.integer({ min: 0, max: 9 }).map((i) => `often${i}`) },
      { weight: 2, arbitrary: fc.integer({ min: 0, max: 400 }).map((i) => `seldom${i}`) },
      { weight: 1, arbitrary: fc.constantFrom("__proto__", "constructor", "", "1", "01") },
    ),
    times: fc.integer({ min: 1, max: 5 }),
  }),
  { maxLength: 300 },
);

/** Some put many keys into one cell. */
const hashes = fc.constantFrom(
  (key: string) => [...key].reduce((hash, letter) => (hash * 33 + letter.charCodeAt(0)) % 4_294_967_296, 5381),
  (key: string) => key.length,
  () => 4_294_967_295,
);
const spread = (key: string) => [...key].reduce((hash, letter) => (hash * 33 + letter.charCodeAt(0)) % 65_536, 1);

type Stream = readonly { readonly key: string; readonly times: number }[];

function truthOf(stream: Stream): Map<string, number> {
  const truth = new Map<string, number>();
  for (const { key, times } of stream) truth.set(key, (truth.get(key) ?? 0) + times);
  return truth;
}

function summaryOf(stream: Stream, capacity: number, hashOf: (key: string) => number): KeyCounts {
  const keys = newKeyCounts(capacity);
  for (const { key, times } of stream) for (let i = 0; i < times; i++) countKey(keys, key, hashOf);
  return keys;
}

describe("the counts of keys", () => {
  it("are never too high, and too low by no more than the error; at most 2 × total ÷ capacity is taken", () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 60 }), hashes, (stream, capacity, hashOf) => {
        const keys = summaryOf(stream, capacity, hashOf);
        const total = stream.reduce((sum, { times }) => sum + times, 0);
        expect(Object.keys(keys.counts)).toHaveLength(keys.size);
        expect(keys.size).toBeLessThanOrEqual(capacity);
        expect(keys.taken).toBeLessThanOrEqual((2 * total) / capacity);
        for (const [key, count] of truthOf(stream)) {
          const counted = keys.counts[key] ?? 0;
          expect(counted).toBeLessThanOrEqual(count);
          expect(count).toBeLessThanOrEqual(counted + errorOf(keys));
        }
      }),
    );
  });

  it("are exact while there is room", () => {
    const keys = newKeyCounts(3);
    for (const key of ["a", "b", "a", "c", "a"]) countKey(keys, key, spread);
    expect([keys.counts["a"], keys.counts["b"], keys.counts["c"], errorOf(keys)]).toEqual([3, 1, 1, 0]);
  });

  it("find the frequent keys in a flood of keys that come once", () => {
    const keys = newKeyCounts(64);
    for (let i = 0; i < 100_000; i++) countKey(keys, i % 10 === 0 ? `frequent${i % 50}` : `once${i}`, spread);
    const { keys: largest } = largestCounts(keys, 5);
    expect(largest.sort()).toEqual(["frequent0", "frequent10", "frequent20", "frequent30", "frequent40"]);
    expect(errorOf(keys)).toBeLessThan((2 * 100_000) / 64);
  });
});

describe("the largest counts", () => {
  it("are as many as asked for, none smaller than one left out, and say what a key left out came at most", () => {
    fc.assert(
      fc.property(
        streams,
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 30 }),
        hashes,
        (stream, capacity, most, hashOf) => {
          const keys = summaryOf(stream, capacity, hashOf);
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
