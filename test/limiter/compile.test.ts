import { expect, test } from "vitest";
import { atCost, compilePolicy } from "../../limiter/src/policy/compile.ts";
import { policyNamed } from "./policies.ts";

const slots = { name: "slots", algorithm: "concurrency", quota: 3, ttl: "5s" };
const daily = { name: "daily", algorithm: "fixed-window", quota: 5, window: "1d" };

test("a compiled limit is named by what the keys of all its counters share", () => {
  const { counterPrefix, limits } = compilePolicy("shop", policyNamed("books", { limits: [daily, slots] }));
  expect(counterPrefix).toBe("s2:{shop:books:");
  expect(limits.map(({ name, counterSuffix, counterFamily }) => ({ name, counterSuffix, counterFamily }))).toEqual([
    {
      name: "daily",
      counterSuffix: "}:daily:fixed-window:86400000000",
      counterFamily: "s2:{shop:books:}:daily:fixed-window:86400000000",
    },
    {
      name: "slots",
      counterSuffix: "}:slots:concurrency:5000000",
      counterFamily: "s2:{shop:books:}:slots:concurrency:5000000",
    },
  ]);
});

test("a compiled policy holds slots when one of its limits is of concurrency", () => {
  const holds = (...limits: object[]) => compilePolicy("shop", policyNamed("books", { limits })).holdsSlots;
  expect([holds(daily), holds(slots), holds(daily, slots), holds(slots, daily)]).toEqual([false, true, true, true]);
});

test("a policy at another cost is the same but for that, and the same each time", () => {
  const policy = compilePolicy("shop", policyNamed("books", { limits: [daily], cost: { from: "header:c", max: 4 } }));
  const priced = atCost(policy, 3);
  expect(priced.policy).toEqual({ ...policy.policy, cost: 3 });
  expect(priced.limits).toBe(policy.limits);
  expect(atCost(policy, 3)).toBe(priced);
  expect(atCost(policy, 1)).toBe(policy);
  expect(atCost(policy, 4)).not.toBe(priced);
});

test("however many costs are stated, few are remembered, and each is right", () => {
  const large = { name: "large", algorithm: "fixed-window", quota: 100_000, window: "1d" };
  const policy = compilePolicy("shop", policyNamed("books", { limits: [large], cost: { from: "header:c" } }));
  for (let cost = 1; cost <= 100_000; cost++) expect(atCost(policy, cost).policy.cost).toBe(cost);
  expect(Object.keys(policy.byCost.policies)).toHaveLength(256);
});
