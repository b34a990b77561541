import fc from "fast-check";
import { expect, test } from "vitest";
import { sorted } from "../../../limiter/src/basics/sort.ts";

const comesFirst = (a: { rank: number }, b: { rank: number }) => a.rank < b.rank;

test("is what Node's own sort makes, which keeps the order of equal items", () => {
  const items = fc.array(fc.record({ rank: fc.integer({ min: 0, max: 20 }), id: fc.nat() }), { maxLength: 300 });
  fc.assert(
    fc.property(items, (list) => {
      expect(sorted([...list], comesFirst)).toEqual([...list].sort((a, b) => a.rank - b.rank));
    }),
  );
});

test("pauses often", () => {
  let compared = 0;
  let most = 0;
  const list = Array.from({ length: 10_000 }, (_, place) => ({ rank: (place * 7_919) % 10_007 }));
  const counting = (a: { rank: number }, b: { rank: number }) => {
    compared += 1;
    return comesFirst(a, b);
  };
  sorted(list, counting, () => {
    most = Math.max(most, compared);
    compared = 0;
  });
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(64);
});
