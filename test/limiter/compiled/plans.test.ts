import { describe, expect, test } from "vitest";
import {
  compilePolicy,
  hasPlan,
  overrideFor,
  planOfKey,
  policyInPlan,
  policyOf,
} from "../../../limiter/src/compiled/compile.ts";
import { timezonesOf } from "../../../limiter/src/document/timezones.ts";
import { warningsOf } from "../../../limiter/src/document/warnings.ts";
import { policyNamed } from "../policies.ts";

const daily = (quota: number, more = {}) => ({
  name: "daily",
  algorithm: "fixed-window",
  quota,
  window: "1d",
  ...more,
});
const burst = { name: "burst", algorithm: "token-bucket", quota: 5, window: "1s" };
const tiers = (more = {}) =>
  policyNamed("tiers", {
    key: ["header:x-plan", "ip"],
    plans: { free: [daily(10)], pro: [burst, daily(100)] },
    planBy: "header:x-plan",
    defaultPlan: "free",
    ...more,
    limits: undefined,
  });

describe("a policy with plans", () => {
  const policy = compilePolicy("shop", tiers());
  const pro = policyInPlan(policy, "pro");

  test("is its default plan, and has the others beside it", () => {
    expect(policy.limits.map(({ rate }) => rate.quota)).toEqual([10]);
    expect(pro.limits.map(({ name, rate }) => [name, rate.quota])).toEqual([
      ["burst", 5],
      ["daily", 100],
    ]);
    expect(pro.policyHeader).toBe('"burst";q=5;w=1, "daily";q=100;w=86400');
  });

  test("has a counter once for limits of one name, algorithm and window", () => {
    const [own] = policy.limits;
    const [ofBurst, ofDaily] = pro.limits;
    expect(ofDaily?.counterFamily).toBe(own?.counterFamily);
    expect(ofBurst?.counterFamily).not.toBe(own?.counterFamily);
    // In the overflow, where several keys share a cell, plans do not.
    expect([own?.owner, ofDaily?.owner]).toEqual([undefined, "plan pro"]);
  });

  test("has one lock for all plans, and decides none without further checks", () => {
    expect(policy.lockLimit).toBe(policy.limits[0]);
    expect(pro.lockLimit).toBe(policy.limits[0]);
    expect([policy.policy.fastPath, pro.policy.fastPath]).toEqual([false, false]);
  });

  test("applies the default plan to what names none of them", () => {
    for (const name of [undefined, "", "free", "gold", "constructor", "__proto__"]) {
      expect(policyInPlan(policy, name)).toBe(policy);
    }
    expect(policyInPlan(compilePolicy("shop", policyNamed("plain")), "pro").name).toBe("plain");
  });

  test("knows its plans", () => {
    expect(["free", "pro", "gold", "constructor"].map((name) => hasPlan(policy, name))).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect(hasPlan(compilePolicy("shop", policyNamed("plain")), "free")).toBe(false);
  });

  test("takes the plan from a key that has the part that names it", () => {
    expect(planOfKey(policy, ["pro", "10.0.0.1"])).toBe("pro");
    expect(planOfKey(compilePolicy("shop", tiers({ planBy: "jwt:plan" })), ["pro", "10.0.0.1"])).toBeUndefined();
    expect(planOfKey(compilePolicy("shop", policyNamed("plain")), [])).toBeUndefined();
  });

  test("is overridden by the limits of the default plan with the override's in their place", () => {
    const overrides = [{ key: ["*", "10.0.0.1"], limits: [daily(3)] }];
    const overridden = overrideFor(compilePolicy("shop", tiers({ overrides })), ["pro", "10.0.0.1"]);
    expect(overridden?.limits.map(({ name, rate }) => [name, rate.quota])).toEqual([["daily", 3]]);
    expect(overridden?.plans).toBeUndefined();
  });

  test("is never leased, and says so", () => {
    const leased = tiers({ scope: "cluster", consistency: "leased" });
    expect(compilePolicy("shop", leased).policy.store).toBe("exact");
    expect(policyInPlan(compilePolicy("shop", leased), "pro").policy.store).toBe("exact");
    expect(warningsOf(leased).map(({ path }) => path)).toEqual(["consistency"]);
  });

  test("costs at most what the smallest limit of any plan holds", () => {
    expect(tiers({ cost: { from: "header:x-cost" } }).costSource?.max).toBe(5);
  });

  test("can be compiled again from what is kept of it", () => {
    const again = compilePolicy("shop", policyOf(policy));
    expect(policyInPlan(again, "pro").limits.map(({ rate }) => rate.quota)).toEqual([5, 100]);
  });

  test("goes by the time zones of all its plans", () => {
    const plans = {
      free: [daily(1, { window: "day", timezone: "Europe/Berlin" })],
      pro: [daily(1, { window: "day", timezone: "Asia/Shanghai" }), { ...burst, name: "other" }],
    };
    expect(timezonesOf(tiers({ plans })).toSorted()).toEqual(["Asia/Shanghai", "Europe/Berlin"]);
  });

  test("reads the body of a request if a field of a form names the plan", () => {
    expect(compilePolicy("shop", tiers({ planBy: "form:plan" })).policy.readsForm).toBe(true);
    expect(policy.policy.readsForm).toBeUndefined();
  });
});
