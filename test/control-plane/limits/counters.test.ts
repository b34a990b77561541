// Counting requests by key in bounded memory.

import { expect, it } from "vitest";
import { type Allowance, parseAllowance } from "../../../control-plane/src/limits/allowance.ts";
import { Counters } from "../../../control-plane/src/limits/counters.ts";
import { KnownTokens } from "../../../control-plane/src/limits/known-tokens.ts";

function start(allowance: Allowance, most?: number) {
  const clock = { ms: 1_000 };
  return { clock, counters: new Counters(allowance, () => clock.ms, most) };
}

it("admits the burst, then the rate, and says when to come again", () => {
  const { clock, counters } = start({ perSecond: 2, burst: 3 });
  const remaining = [1, 2, 3].map(() => counters.take("a").remaining);
  expect(remaining).toEqual([2, 1, 0]);
  expect(counters.take("a")).toMatchObject({ allowed: false, limit: 3, remaining: 0, retryAfterUs: 500_000 });
  clock.ms += 499;
  expect(counters.take("a").allowed).toBe(false);
  clock.ms += 1;
  expect(counters.take("a").allowed).toBe(true);
  expect(counters.take("b").allowed).toBe(true);
});

it("refunds what was charged, and never more", () => {
  const { counters } = start({ perSecond: 1, burst: 2 });
  counters.take("a");
  counters.take("a");
  expect(counters.take("a").allowed).toBe(false);
  counters.refund("a");
  expect(counters.take("a").allowed).toBe(true);
  for (let i = 0; i < 5; i++) counters.refund("a");
  expect([1, 2, 3].map(() => counters.take("a").allowed)).toEqual([true, true, false]);
});

it("keeps no more counters than it may, and forgets none that refuses, however many other keys come", () => {
  const { counters } = start({ perSecond: 1, burst: 2 }, 100);
  while (counters.take("flood").allowed);
  for (let i = 0; i < 20_000; i++) counters.take(`other ${i}`);
  expect(counters.size).toBeLessThanOrEqual(100);
  expect(counters.take("flood").allowed).toBe(false);
});

it("lets new keys share counters when it is full, so that they are limited all the same", () => {
  const { counters } = start({ perSecond: 1, burst: 10 }, 100);
  for (let i = 0; i < 100; i++) counters.take(`first ${i}`);
  let allowed = 0;
  for (let i = 0; i < 20_000; i++) if (counters.take(`new ${i}`).allowed) allowed += 1;
  // 64 shared counters with 10 each.
  expect(allowed).toBe(640);
});

it("drops counters that are like new ones, so that it has room again", () => {
  const { clock, counters } = start({ perSecond: 1, burst: 10 }, 100);
  for (let i = 0; i < 100; i++) counters.take(`first ${i}`);
  clock.ms += 60_000;
  for (let i = 0; i < 10; i++) expect(counters.take(`new ${i}`).remaining).toBe(9);
  expect(counters.size).toBeLessThan(100);
});

it.each([
  ["500", { perSecond: 500, burst: 5_000 }],
  ["500:700", { perSecond: 500, burst: 700 }],
  ["off", "off"],
  ["0", undefined],
  ["5:0", undefined],
  ["1.5", undefined],
  ["5:", undefined],
  ["-1", undefined],
  ["1000001", undefined],
  ["OFF", undefined],
])("reads the allowance %j", (text, allowance) => {
  expect(parseAllowance(text)).toEqual(allowance);
});

it("remembers the tokens that were used last", () => {
  const known = new KnownTokens(2);
  for (const hash of ["a", "b", "a", "c"]) known.add(hash, [`owner of ${hash}`]);
  expect(["a", "b", "c"].map((hash) => known.ownersOf(hash))).toEqual([["owner of a"], undefined, ["owner of c"]]);
});
