// A gateway does not keep documents: it compiles a policy again from what is compiled. Policies that say the same share what they say.

import { describe, expect, test } from "vitest";
import { type CalendarWindow, followWindow } from "../../../limiter/src/algorithms/calendar-window.ts";
import {
  type CompiledPolicy,
  compilePolicy,
  isExemptAddress,
  overrideFor,
  planOfKey,
  policyInPlan,
  policyOf,
  withOwnLimits,
} from "../../../limiter/src/compiled/compile.ts";
import type { Policy } from "../../../limiter/src/document/policy.ts";
import { utc } from "../../../limiter/src/document/schedule.ts";
import { validatePolicy } from "../../../limiter/src/document/validate.ts";
import { readVectors } from "../../parity/vectors.ts";
import { day } from "../algorithms/counter.ts";
import { policyNamed, smallestLimit } from "../policies.ts";

const compiled = (fields: Record<string, unknown> = {}) => compilePolicy("shop", policyNamed("books", fields));
const cluster = { scope: "cluster" };
const planned = {
  limits: undefined,
  key: ["header:x-plan", "ip"],
  plans: {
    free: [{ ...smallestLimit, name: "first", quota: 1 }],
    pro: [{ ...smallestLimit, name: "first", burst: 30 }],
  },
  planBy: "header:x-plan",
  defaultPlan: "free",
};

describe("what is compiled from a policy says all that the policy does, but for its description:", () => {
  for (const { name, document } of readVectors("policy-documents").valid) {
    test(name, () => {
      const policy = validatePolicy(document).policy as Policy;
      expect(policyOf(compilePolicy("shop", policy))).toStrictEqual({ ...policy, description: "" });
    });
  }

  test.each([
    { ...smallestLimit, burst: 30 },
    { ...smallestLimit, burst: 30, initial: 5 },
    { ...smallestLimit, burst: 30, warmUp: "1m" },
    { ...smallestLimit, burst: 30, initial: 0, warmUp: "1m" },
    { ...smallestLimit, algorithm: "leaky-bucket", burst: 5 },
    { ...smallestLimit, algorithm: "fixed-window" },
    { ...smallestLimit, algorithm: "fixed-window", window: "day" },
    { ...smallestLimit, algorithm: "sliding-window", window: "10s", precision: "2s" },
    { ...smallestLimit, algorithm: "sliding-log" },
    { name: "slots", algorithm: "concurrency", quota: 3, ttl: "5s" },
  ])("the limit %j", (limit) => {
    const policy = policyNamed("books", { limits: [limit] });
    expect(policyOf(compilePolicy("shop", policy)).limits).toStrictEqual(policy.limits);
  });

  test.each([
    ["consistency", { ...cluster, consistency: "leased" }],
    ["maxStoreWait", { ...cluster, maxStoreWait: "50ms" }],
    ["sharedWith", { sharedWith: ["billing"] }],
    ["headers", { match: { headers: { "x-tier": ["free"] } } }],
    ["plans", planned],
  ])("the field %s", (_, fields) => {
    const policy = policyNamed("books", fields);
    expect(policyOf(compilePolicy("shop", policy))).toStrictEqual({ ...policy, description: "" });
  });
});

describe("a compiled policy", () => {
  test("has a field only for what it says: one more would double what ten thousand of them take", () => {
    const plain = compiled();
    expect(Object.keys(plain)).toEqual([
      "app",
      "name",
      "policy",
      "limits",
      "counterPrefix",
      "policyHeader",
      "match",
      "counts",
    ]);
    expect(Object.keys(plain.match)).toEqual(["hosts", "paths"]);
    for (const name of ["readsForm", "consistency", "maxStoreWaitUs", "sharedWith"]) {
      expect(Object.keys(plain.policy)).not.toContain(name);
    }
  });

  const variants: readonly Record<string, unknown>[] = [
    {},
    { mode: "shadow" },
    { priority: 7 },
    { key: ["ip"] },
    { key: ["header:x-user"] },
    { key: ["header:x-user"], onMissingKey: "deny" },
    { cost: 3 },
    { cost: { from: "header:x-cost" } },
    { cost: { from: "header:x-other" } },
    { cost: { from: "response-bytes" } },
    cluster,
    { ...cluster, consistency: "leased" },
    { ...cluster, maxStoreWait: "50ms" },
    { ...cluster, maxStoreWait: "60ms" },
    { ...cluster, onStoreFailure: "allow" },
    { onLimit: { status: 503 } },
    { onLimit: { body: "Later." } },
    { sharedWith: ["billing"] },
    { sharedWith: ["crm"] },
  ];

  test("says what its document does, whatever was compiled before it", () => {
    for (const fields of [...variants, ...variants.toReversed()]) {
      const policy = policyNamed("books", fields);
      const { mode, priority, key, onMissingKey, cost, costSource, scope, onStoreFailure, onLimit } = policy;
      const same = { mode, priority, key, onMissingKey, cost, costSource, scope, onStoreFailure, onLimit };
      const { consistency, maxStoreWaitUs, sharedWith } = policy;
      const terms = compilePolicy("shop", policy).policy;
      expect(terms, JSON.stringify(fields)).toMatchObject({ ...same, deferred: costSource?.from === "response-bytes" });
      expect([terms.consistency, terms.maxStoreWaitUs, terms.sharedWith]).toEqual([
        consistency,
        maxStoreWaitUs,
        sharedWith,
      ]);
    }
  });

  test("shares what it says with those that say the same, and with no others", () => {
    const terms = variants.map((fields) => compiled(fields).policy);
    expect(new Set(terms).size).toBe(variants.length);
    variants.forEach((fields, i) => {
      expect(compiled(fields).policy).toBe(terms[i]);
    });
  });

  test("shares a rate with limits of the same numbers, and with no others", () => {
    const rate = (limit: object) => compiled({ limits: [{ ...smallestLimit, quota: 77, ...limit }] }).limits[0]?.rate;
    const limits = [{}, { initial: 1 }, { initial: 2 }, { warmUp: "1m" }, { initial: 1, warmUp: "1m" }, { burst: 78 }];
    const rates = limits.map(rate);
    expect(new Set(rates).size).toBe(limits.length);
    expect(rates.map((one) => one?.algorithm)).toEqual([
      "token-bucket",
      "shaped-bucket",
      "shaped-bucket",
      "shaped-bucket",
      "shaped-bucket",
      "token-bucket",
    ]);
    limits.forEach((limit, i) => {
      expect(rate(limit)).toBe(rates[i]);
    });
  });

  test("is decided without further checks only if nothing in a request decides whether it counts, or by what", () => {
    const windows = [{ from: "09:00", to: "18:00" }];
    expect(compiled().policy.fastPath).toBe(true);
    for (const fields of [
      { mode: "shadow" },
      { cost: { from: "header:x-cost" } },
      planned,
      { key: ["ip"], overrides: [{ key: ["192.0.2.1"], mode: "off" }] },
      { schedule: { timezone: "UTC", windows } },
      { key: ["form:user"] },
      { match: { methods: ["GET"] } },
      { match: { headers: { "x-tier": ["free"] } } },
      { exempt: { cidrs: ["10.0.0.0/8"] } },
      { onLimit: { action: "tag", header: "x-over-limit: 1" } },
    ]) {
      expect([fields, compiled(fields).policy.fastPath]).toEqual([fields, false]);
    }
  });

  test("has windows of the calendar by the clocks of its time zone", () => {
    const limits = [{ ...smallestLimit, algorithm: "fixed-window", window: "day", timezone: "Asia/Tokyo" }];
    const policy = policyNamed("books", { limits });
    const window = compilePolicy("shop", policy, { "Asia/Tokyo": [[0, 540]] }).limits[0]?.rate as CalendarWindow;
    expect(window.algorithm).toBe("calendar-window");
    followWindow(window, Date.UTC(2024, 1, 29, 16) * 1000);
    expect(window.startUs).toBe(Date.UTC(2024, 1, 29, 15) * 1000);
    expect(window.endUs - window.startUs).toBe(day);
  });

  test("exempts those on a list of networks, also one that comes later", () => {
    const lists = { "shop:office": { v4: ["c0000200c00002ff"], v6: [] } };
    const policy = policyNamed("books", { exempt: { cidrs: ["@office"] } });
    const listed = compilePolicy("shop", policy, {}, undefined, undefined, [], lists);
    const unlisted = compilePolicy("shop", policy);
    const other = compilePolicy("crm", policy, {}, undefined, undefined, [], lists);
    const exempts = (one: CompiledPolicy) => ["192.0.2.7", "192.0.3.7"].map((address) => isExemptAddress(one, address));
    expect([listed, unlisted, other].map(exempts)).toEqual([
      [true, false],
      [false, false],
      [false, false],
    ]);
  });
});

describe("variants of a policy", () => {
  test("of its plans have the name of the plan for an owner, and its lock; the default plan is the policy", () => {
    let pauses = 0;
    const policy = compilePolicy("shop", policyNamed("books", planned), {}, undefined, () => {
      pauses += 1;
    });
    expect(pauses).toBe(1);
    expect(Object.keys(policy.plans?.policies ?? {})).toEqual(["pro"]);
    const pro = policyInPlan(policy, "pro");
    expect(pro.limits.map(({ owner }) => owner)).toEqual(["plan pro"]);
    expect([policy.lockLimit, pro.lockLimit]).toEqual([policy.limits[0], policy.limits[0]]);
    expect("lockLimit" in compiled()).toBe(false);
    expect(planOfKey(policy, ["pro", "10.0.0.1"])).toBe("pro");
    const last = compiled({ ...planned, key: ["ip", "header:x-plan"] });
    expect(planOfKey(last, ["10.0.0.1", "pro"])).toBe("pro");
    expect(planOfKey(compiled({ ...planned, key: ["ip"] }), ["pro"])).toBeUndefined();
    // The bucket that fills sooner would forget what the other owes.
    expect(pro.limits[0]?.counterFamily).not.toBe(policy.limits[0]?.counterFamily);
  });

  test("of its overrides have the override's key for an owner, where their limits are their own", () => {
    const limits = [
      { ...smallestLimit, name: "first" },
      { ...smallestLimit, name: "second" },
    ];
    const policy = compiled({
      key: ["ip", "header:x-user"],
      limits,
      overrides: [{ key: ["*", "vip"], limits: [{ ...limits[1], quota: 99 }] }],
    });
    const vip = overrideFor(policy, ["192.0.2.1", "vip"]);
    expect(vip?.limits.map(({ owner, rate }) => [owner, rate.quota])).toEqual([
      [undefined, 10],
      ["*\nvip", 99],
    ]);
    expect(vip?.limits[0]).toBe(policy.limits[0]);
    expect(overrideFor(policy, ["192.0.2.1", "ann"])).toBeUndefined();
  });

  test("of a consumer's own limits are checked for each request, and may be of any length on a node", () => {
    const policy = compiled({ limits: [{ ...smallestLimit, name: "first" }], scope: "node" });
    expect(policy.policy.fastPath).toBe(true);
    const { limits } = policyNamed("own", { limits: [{ ...smallestLimit, name: "first", quota: 99 }] });
    const own = withOwnLimits(policy, policy, limits, "consumer ann");
    expect(own.limits.map(({ owner, rate }) => [owner, rate.quota])).toEqual([["consumer ann", 99]]);
    expect(own.policy.fastPath).toBe(false);
    expect(own.policyHeader).toBe('"first";q=99;w=1');
  });

  test("of a consumer's own limits by the clocks of UTC need no zone", () => {
    const window = { ...smallestLimit, name: "first", algorithm: "fixed-window", window: "day" };
    const policy = compiled({ limits: [window] });
    const { limits } = policyNamed("own", { limits: [{ ...window, quota: 99 }] });
    expect(limits[0]?.calendar?.timezone).toBe(utc);
    expect(withOwnLimits(policy, policy, limits, "ann").limits[0]?.rate.quota).toBe(99);
    const abroad = policyNamed("own", { limits: [{ ...window, quota: 99, timezone: "Asia/Tokyo" }] }).limits;
    expect(withOwnLimits(policy, policy, abroad, "ann").limits[0]?.rate.quota).toBe(10);
  });
});
