// The limits that a consumer has of its own, by the names of policies: which of them hold, and what is left out.

import { describe, expect, test } from "vitest";
import { capacity } from "../../../limiter/src/algorithms/rate.ts";
import { type CompiledLimit, compilePolicy, policyInPlan } from "../../../limiter/src/compiled/compile.ts";
import { policyOfConsumer } from "../../../limiter/src/compiled/consumer-limits.ts";
import { policyNamed } from "../policies.ts";

const daily = (quota: number, more = {}) => ({
  name: "daily",
  algorithm: "fixed-window",
  quota,
  window: "1d",
  ...more,
});
const burst = { name: "burst", algorithm: "token-bucket", quota: 5, window: "1s" };
const compiled = (name: string, more = {}, zones = {}) =>
  compilePolicy(
    "shop",
    policyNamed(name, {
      key: ["header:x-consumer"],
      scope: "cluster",
      plans: { free: [daily(10)], pro: [burst, daily(100)] },
      planBy: "consumer",
      defaultPlan: "free",
      ...more,
      limits: undefined,
    }),
    zones,
  );
const books = compiled("books");
const pro = policyInPlan(books, "pro");

const own = (overrides: object, policy = books, inPlan = pro) =>
  policyOfConsumer(policy, inPlan, overrides as Record<string, unknown>, JSON.stringify(overrides));
const quotas = (overrides: object, policy = books, inPlan = pro) =>
  own(overrides, policy, inPlan).limits.map(({ name, rate }) => [name, rate.quota]);

describe("a consumer's own limits", () => {
  test("hold in the policy that they are for, instead of its plan's of the same names", () => {
    expect(quotas({ books: [daily(7)] })).toEqual([
      ["burst", 5],
      ["daily", 7],
    ]);
    expect(own({ books: [daily(7)] }).policyHeader).toBe('"burst";q=5;w=1, "daily";q=7;w=86400');
  });

  test("leave the plan as it is in every other policy", () => {
    expect(own({ books: [daily(7)] }, compiled("films"), pro)).toBe(pro);
    expect(own({}, books, pro)).toBe(pro);
    expect(own({}, books, books)).toBe(books);
  });

  test("are those of all consumers with the same ones, and of no others, where counters share cells", () => {
    const overrides = { books: [daily(7)] };
    const owners = own(overrides).limits.map(({ owner }) => owner);
    expect(owners).toEqual([
      "plan pro",
      'consumer {"books":[{"name":"daily","algorithm":"fixed-window","quota":7,"window":"1d"}]}',
    ]);
  });

  test("may hold for a lifetime in a policy that the whole cluster counts", () => {
    const forever = compiled("books", { plans: { free: [daily(10, { window: "lifetime" })] } });
    expect(quotas({ books: [daily(99, { window: "lifetime" })] }, forever, forever)).toEqual([["daily", 99]]);
  });

  test("have room for the cost of one request in a leaky-bucket, as the plan's have", () => {
    const queue = { name: "daily", algorithm: "leaky-bucket", quota: 5, window: "1m", burst: 7, maxDelay: "10s" };
    for (const [cost, room] of [
      [1, 0],
      [2, 1],
      [7, 6],
      [{ from: "header:x-cost", default: 2, max: 4 }, 3],
      [{ from: "header:x-cost", default: 2 }, 1],
    ] as const) {
      const costly = compiled("books", { plans: { free: [{ ...queue, quota: 100 }] }, cost });
      const { limits } = own({ books: [queue] }, costly, costly);
      expect([cost, capacity((limits[0] as CompiledLimit).rate)]).toEqual([cost, room + 1]);
    }
  });

  test("go by the time zones that the policy goes by", () => {
    const inUtc = compiled("books", { plans: { free: [daily(10, { window: "day" })] } });
    const plans = { free: [daily(10, { window: "day" })], pro: [daily(20, { window: "day", timezone: "Asia/Tokyo" })] };
    const inTokyo = compiled("books", { plans }, { "Asia/Tokyo": [[0, 540]] });
    const overrides = { books: [daily(99, { window: "day", timezone: "Asia/Tokyo" })] };
    expect(quotas(overrides, inUtc, inUtc)).toEqual([["daily", 10]]);
    expect(quotas(overrides, inTokyo, inTokyo)).toEqual([["daily", 99]]);
  });
});

describe("the plan's limits hold", () => {
  test.each([
    ["an algorithm that this version does not know", [daily(7, { algorithm: "next-year" })]],
    ["a field that this version does not know", [daily(7, { more: 1 })]],
    ["no limits", []],
    ["something else than a list", "daily"],
  ])("for a consumer with %s", (_, limits) => {
    expect(own({ books: limits })).toBe(pro);
  });

  test("in a policy that is called like what every object has", () => {
    const policy = compiled("constructor");
    expect(own({}, policy, policy)).toBe(policy);
  });
});
