import { describe, expect, test } from "vitest";
import {
  atCost,
  compilePolicy,
  isExemptAddress,
  isExemptKey,
  overrideFor,
} from "../../../limiter/src/compiled/compile.ts";
import { policyNamed } from "../policies.ts";

const slots = { name: "slots", algorithm: "concurrency", quota: 3, ttl: "5s" };
const daily = { name: "daily", algorithm: "fixed-window", quota: 5, window: "1d" };

test("a compiled limit is named by what the keys of all its counters share", () => {
  const { counterPrefix, limits } = compilePolicy("shop", policyNamed("books", { limits: [daily, slots] }));
  expect(counterPrefix).toBe("s3:{shop:books:");
  expect(limits.map(({ name, counterSuffix, counterFamily }) => ({ name, counterSuffix, counterFamily }))).toEqual([
    {
      name: "daily",
      counterSuffix: "}:daily:fixed-window:86400000000",
      counterFamily: "s3:{shop:books:}:daily:fixed-window:86400000000",
    },
    {
      name: "slots",
      counterSuffix: "}:slots:concurrency:5000000",
      counterFamily: "s3:{shop:books:}:slots:concurrency:5000000",
    },
  ]);
});

test("a compiled policy holds slots if one of its limits is concurrency", () => {
  const holds = (...limits: object[]) => compilePolicy("shop", policyNamed("books", { limits })).policy.holdsSlots;
  expect([holds(daily), holds(slots), holds(daily, slots), holds(slots, daily)]).toEqual([false, true, true, true]);
});

test("a policy is leased if it says so, all of its limits can be leased, and its cost is known before the response", () => {
  const fast = { name: "fast", algorithm: "token-bucket", quota: 400, window: "1s" };
  const leased = (more: object, ...limits: object[]) =>
    compilePolicy("shop", policyNamed("books", { scope: "cluster", consistency: "leased", limits, ...more }));
  expect(leased({}, fast, daily).policy.store).toBe("leased");
  expect(leased({}, fast, slots).policy.store).toBe("exact");
  expect(leased({ scope: "node" }, fast).policy.store).toBe("node");
  expect(leased({ consistency: "exact" }, fast).policy.store).toBe("exact");
  expect(leased({ cost: { from: "response-bytes" } }, fast).policy.store).toBe("exact");
  const own = { key: ["ip"], overrides: [{ key: ["1.2.3.4"], limits: [{ ...fast, burst: 1 }] }] };
  expect(overrideFor(leased(own, fast), ["1.2.3.4"])?.policy.store).toBe("exact");
});

test("a policy at another cost says that a request stated it, differs in nothing else, and is the same object each time", () => {
  const policy = compilePolicy("shop", policyNamed("books", { limits: [daily], cost: { from: "header:c", max: 4 } }));
  const priced = atCost(policy, 3);
  expect(priced.policy).toEqual({ ...policy.policy, cost: 3, isPriced: true });
  expect(priced.limits).toBe(policy.limits);
  expect(atCost(policy, 1)).toBe(policy);
  expect(atCost(policy, 4)).not.toBe(priced);
});

describe("an override", () => {
  const vip = { name: "daily", algorithm: "fixed-window", quota: 500, window: "1d" };
  const hourly = { ...vip, window: "1h" };
  const policy = compilePolicy(
    "shop",
    policyNamed("books", {
      key: ["ip", "header:x-user"],
      limits: [daily, slots],
      cost: { from: "header:c" },
      overrides: [
        { key: ["*", "vip-42"], limits: [vip] },
        { key: ["192.0.2.1", "*"], mode: "off" },
        { key: ["2001:db8::9", "*"], limits: [hourly], mode: "shadow" },
      ],
    }),
  );

  test("is found by the key values, and is the policy with other limits and another mode", () => {
    const found = overrideFor(policy, ["192.0.2.1", "vip-42"]);
    expect(found?.limits.map(({ name, rate }) => [name, rate.quota])).toEqual([
      ["daily", 500],
      ["slots", 3],
    ]);
    expect(found?.policyHeader).toBe('"daily";q=500;w=86400, "slots";q=3;qu="concurrent-requests"');
    expect(found?.policy.mode).toBe("enforce");
    expect(overrideFor(policy, ["192.0.2.1", "ann"])?.policy.mode).toBe("off");
    expect(overrideFor(policy, ["2001:db8:0:0:0:0:0:0/64", "ann"])?.policy.mode).toBe("shadow");
    expect(overrideFor(policy, ["192.0.2.2", "ann"])).toBeUndefined();
  });

  test("uses the policy's counters if its window is the same, and its own otherwise", () => {
    expect(overrideFor(policy, ["", "vip-42"])?.limits[0]?.counterFamily).toBe(policy.limits[0]?.counterFamily);
    expect(overrideFor(policy, ["2001:db8:0:0:0:0:0:0/64", ""])?.limits[0]?.counterFamily).toBe(
      "s3:{shop:books:}:daily:fixed-window:3600000000",
    );
  });

  test("leaves limits that it does not name unchanged", () => {
    const found = overrideFor(policy, ["", "vip-42"]);
    expect(found?.limits[1]).toBe(policy.limits[1]);
    expect(found?.policy.holdsSlots).toBe(true);
  });

  test("has costs of its own to remember", () => {
    const found = overrideFor(policy, ["", "vip-42"]) as typeof policy;
    expect(atCost(found, 2).limits[0]?.rate.quota).toBe(500);
    expect(atCost(policy, 2).limits[0]?.rate.quota).toBe(5);
  });

  test("is searched only if the policy has overrides", () => {
    expect(overrideFor(compilePolicy("shop", policyNamed("books")), [])).toBeUndefined();
  });
});

describe("exemptions", () => {
  const key = ["ip", "header:x-user"];
  const policyWith = (exempt: object) => compilePolicy("shop", policyNamed("books", { key, exempt }));

  test("cover addresses of the networks, and key values that a list of patterns matches", () => {
    const policy = policyWith({
      cidrs: ["10.0.0.0/8"],
      keys: [
        ["*", "probe-*"],
        ["192.0.2.1", "ann"],
      ],
    });
    expect(["10.1.2.3", "::ffff:10.1.2.3", "11.0.0.0", "unix:"].map((one) => isExemptAddress(policy, one))).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect(isExemptKey(policy, ["192.0.2.9", "probe-1"])).toBe(true);
    expect(isExemptKey(policy, ["192.0.2.1", "ann"])).toBe(true);
    expect(isExemptKey(policy, ["192.0.2.2", "ann"])).toBe(false);
  });

  test("cover nobody if none are given", () => {
    for (const exempt of [{}, { cidrs: [] }, { keys: [], cidrs: [] }]) {
      const policy = policyWith(exempt);
      expect(policy.exempt).toBeUndefined();
      expect([isExemptAddress(policy, "10.0.0.1"), isExemptKey(policy, ["10.0.0.1", ""])]).toEqual([false, false]);
    }
  });

  test("by address cover no key values, and the other way round", () => {
    expect(isExemptKey(policyWith({ cidrs: ["0.0.0.0/0"] }), ["10.0.0.1", ""])).toBe(false);
    expect(isExemptAddress(policyWith({ keys: [["*", "*"]] }), "10.0.0.1")).toBe(false);
  });
});

test("what a policy says of the secrecy of its key holds for no other policy, and its counters are the same", () => {
  const compiled = [{ ip: true }, undefined, { "ip/32/64": false }].map((secret) =>
    compilePolicy(
      "shop",
      policyNamed("books", { key: ["ip"], limits: [daily], ...(secret === undefined ? {} : { secret }) }),
    ),
  );
  expect(compiled.map(({ policy }) => policy.key[0]?.secret)).toEqual([true, undefined, false]);
  expect(new Set(compiled.map(({ limits }) => limits[0]?.counterFamily)).size).toBe(1);
});
