import { describe, expect, test } from "vitest";
import {
  compilePolicy,
  hasPlan,
  overrideFor,
  planOfKey,
  policyInPlan,
  policyOf,
  withOwnLimits,
} from "../../../limiter/src/compiled/compile.ts";
import { timezonesOf } from "../../../limiter/src/document/timezones.ts";
import { warningsOf } from "../../../limiter/src/document/warnings.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
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

describe("buckets of several plans", () => {
  const bucket = (quota: number, more = {}) => ({ name: "b", algorithm: "token-bucket", quota, window: "1h", ...more });
  const queue = (quota: number, most: number) =>
    bucket(quota, { algorithm: "leaky-bucket", burst: most, maxDelay: "10h" });
  const suffixes = (plans: object, more = {}) => {
    const policy = compilePolicy("shop", tiers({ plans, ...more }));
    return ["free", "max", "pro"].map((name) => policyInPlan(policy, name).limits[0]?.counterSuffix);
  };
  const common = "}:b:token-bucket:3600000000";

  test("are one counter if they fill in the same time", () => {
    const plans = { free: [bucket(4)], pro: [bucket(8)], max: [bucket(20, { initial: 3 })] };
    expect(suffixes(plans)).toEqual([common, common, common]);
  });

  test("are counted apart if one forgets what the other owes, or that the other warms", () => {
    expect(
      suffixes({ free: [bucket(1, { burst: 4 })], pro: [bucket(1, { burst: 8 })], max: [bucket(3, { burst: 12 })] }),
    ).toEqual([common, common, `${common}/pro`]);
    const warming = { free: [bucket(4)], pro: [bucket(8, { warmUp: "1h" })], max: [bucket(8, { initial: 1 })] };
    expect(suffixes(warming)).toEqual([common, common, `${common}/pro`]);
    const queues = { free: [queue(4, 4)], pro: [queue(8, 8)], max: [queue(8, 9)] };
    const ofQueues = "}:b:leaky-bucket:3600000000";
    expect(suffixes(queues)).toEqual([ofQueues, ofQueues, `${ofQueues}/pro`]);
  });

  test("that the default plan does not have are compared with those of the first plan by name", () => {
    const plans = { free: [daily(1)], pro: [bucket(1, { burst: 8 })], max: [bucket(1, { burst: 4 })] };
    expect(suffixes(plans)).toEqual(["}:daily:fixed-window:86400000000", common, `${common}/pro`]);
  });

  test("are one counter with all plans that fill in the same time, not with the default one alone", () => {
    const plans = { free: [bucket(9, { burst: 2 })], pro: [bucket(3, { burst: 2 })], max: [bucket(6, { burst: 4 })] };
    expect(suffixes(plans)).toEqual([common, `${common}/max`, `${common}/max`]);
    const policy = compilePolicy("shop", tiers({ plans }));
    const [max, pro] = ["max", "pro"].map((name) => policyInPlan(policy, name).limits[0]?.counterFamily);
    expect(pro).toBe(max);
  });

  test("are kept when they are full if another plan's begins with less", () => {
    const rates = (plans: object, more = {}) => {
      const policy = compilePolicy("shop", tiers({ plans, ...more }));
      return ["free", "pro"].map((name) => policyInPlan(policy, name).limits[0]?.rate);
    };
    const kept = { algorithm: "shaped-bucket", initial: 1, burst: 1, warmUpUs: 0 };
    for (const more of [{}, { planBy: "consumer" }]) {
      expect(rates({ free: [bucket(3, { initial: 1 })], pro: [bucket(1)] }, more)).toMatchObject([{ burst: 3 }, kept]);
      expect(rates({ free: [bucket(1)], pro: [bucket(3, { initial: 1 })] }, more)).toMatchObject([kept, { burst: 3 }]);
    }
    expect(rates({ free: [bucket(1)], pro: [bucket(3)] })).toMatchObject([{ algorithm: "token-bucket" }, {}]);
  });

  test("have counters of which each is the family of its own keys", () => {
    const plans = { free: [bucket(1, { burst: 4 })], pro: [bucket(1, { burst: 8 })] };
    const policy = compilePolicy("shop", tiers({ plans }));
    const [limit] = policyInPlan(policy, "pro").limits;
    expect(limit?.counterFamily).toBe(`${policy.counterPrefix}${limit?.counterSuffix}`);
  });

  test("are one counter for a consumer, whom only an operator moves", () => {
    const plans = { free: [bucket(1, { burst: 4 })], pro: [bucket(1, { burst: 8 })], max: [bucket(1)] };
    expect(suffixes(plans, { planBy: "consumer" })).toEqual([common, common, common]);
  });
});

describe("a consumer's own limits", () => {
  const quotas = (inPlan: object, own: object, more = {}, zones = {}) => {
    const document = tiers({ plans: { free: [inPlan] }, planBy: "consumer", scope: "cluster", ...more });
    const policy = compilePolicy("shop", document, zones);
    const { limits } = policyNamed("own", { key: [], scope: "cluster", limits: [own] });
    return withOwnLimits(policy, policy, limits, "consumer").limits.map(({ rate }) => rate.quota);
  };
  const bucket = { name: "b", algorithm: "token-bucket", quota: 10, window: "1d" };

  test.each([
    ["fixed-window", daily(10)],
    ["fixed-window of the calendar", daily(10, { window: "month", anchor: 15 })],
    ["fixed-window of a lifetime", daily(10, { window: "lifetime" })],
    ["token-bucket", bucket],
    ["token-bucket with initial", { ...bucket, initial: 1 }],
    ["token-bucket with warmUp", { ...bucket, warmUp: "1m" }],
    ["sliding-window", { ...bucket, algorithm: "sliding-window" }],
    ["sliding-log", { ...bucket, algorithm: "sliding-log" }],
    ["leaky-bucket", { ...bucket, algorithm: "leaky-bucket" }],
    ["concurrency", { name: "c", algorithm: "concurrency", quota: 10 }],
  ])("hold instead of those of its plan: %s", (_, limit) => {
    expect(quotas(limit, { ...limit, quota: 99 })).toEqual([99]);
  });

  test("do not hold where another algorithm counts, or under another name", () => {
    expect(quotas(bucket, { ...bucket, algorithm: "sliding-log", quota: 99 })).toEqual([10]);
    expect(quotas(bucket, { ...bucket, name: "other", quota: 99 })).toEqual([10]);
  });

  test("do not hold for a lifetime on a node, whose count would end with it", () => {
    expect(quotas(daily(10), daily(99, { window: "lifetime" }), { scope: "node" })).toEqual([10]);
    expect(quotas(daily(10), daily(99, { window: "lifetime" }))).toEqual([99]);
  });

  test("do not hold in a time zone that no policy goes by, whose clocks the gateway does not know", () => {
    const own = daily(99, { window: "day", timezone: "Asia/Tokyo" });
    expect(quotas(daily(10, { window: "day" }), own)).toEqual([10]);
    expect(quotas(daily(10, { window: "day" }), own, {}, { "Asia/Tokyo": [[0, 540]] })).toEqual([99]);
  });
});

test("as many plans and limits as there may be are compiled in some milliseconds", () => {
  const limits = Array.from({ length: 16 }, (_, i) => ({ ...daily(10 + i), name: `limit-${i}` }));
  const plans = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`plan-${i}`, limits]));
  const most = tiers({ plans, defaultPlan: "plan-0" });
  compilePolicy("shop", most);
  const beganMs = processorMs();
  for (let n = 0; n < 10; n++) compilePolicy("shop", most);
  expect((processorMs() - beganMs) / 10).toBeLessThan(8);
});
