import { expect, test } from "vitest";
import { compilePolicy } from "../../limiter/src/policy/compile.ts";
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
