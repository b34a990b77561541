// The oracle of npm run faults: it must find what is too much, and cry for nothing else.

import { expect, it } from "vitest";
import { mostAtOnce } from "./bound.ts";

const decidedAt = (...moments: number[]) => moments.map((ms) => ({ sentAtMs: ms - 1, answeredAtMs: ms + 1 }));
const every = (ms: number, count: number, fromMs = 0) => Array.from({ length: count }, (_, i) => fromMs + i * ms);

it("finds a burst and what refills beside it to be the burst alone", () => {
  const most = mostAtOnce(decidedAt(...every(0, 10), ...every(100, 50, 100)), 10);
  expect(most).toBeGreaterThan(9.5);
  expect(most).toBeLessThanOrEqual(10);
});

it("finds one too many in the midst of a second run", () => {
  const kept = [...every(0, 10), ...every(100, 50, 100)];
  expect(mostAtOnce(decidedAt(...kept, 2550), 10)).toBeGreaterThan(10);
});

it("finds twice the burst where a counter began anew, unless that is told", () => {
  const admissions = decidedAt(...every(0, 10), ...every(0, 10, 50));
  expect(mostAtOnce(admissions, 10)).toBeGreaterThan(19);
  expect(mostAtOnce(admissions, 10, [{ fromMs: 20, toMs: 30, units: 10 }])).toBeLessThanOrEqual(10);
});

it("allows for no loss in an interval that holds none", () => {
  const admissions = decidedAt(...every(0, 11, 100));
  expect(mostAtOnce(admissions, 10, [{ fromMs: 20, toMs: 30, units: 10 }])).toBeGreaterThan(10);
});

it("takes answers that were late for no excess", () => {
  const late = every(0, 20).map(() => ({ sentAtMs: 0, answeredAtMs: 1000 }));
  expect(mostAtOnce(late, 10)).toBe(10);
});
