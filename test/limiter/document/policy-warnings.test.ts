import { describe, expect, it } from "vitest";
import { compilePolicy } from "../../../limiter/src/compiled/compile.ts";
import { exposuresOf, surprisesOf, warningsOf } from "../../../limiter/src/document/warnings.ts";
import { policyFrom, policyNamed } from "../policies.ts";

const fast = { name: "fast", algorithm: "token-bucket", quota: 400, window: "1s" };
const inVain = "; as it is, Redis decides every request in spite of leased";
const leased = (limit: object, more: object = {}) =>
  policyNamed("p", { scope: "cluster", consistency: "leased", limits: [limit], ...more });

describe("a warning about what reaches further than it may seem", () => {
  const limits = [fast];
  const pathsOf = (document: Record<string, unknown>) =>
    surprisesOf(policyNamed("p", document), document).map(({ path }) => path);

  it("is of one counter for every request of every client, unless its author said so", () => {
    expect(pathsOf({ limits })).toEqual(["key"]);
    expect(pathsOf({ limits, match: {} })).toEqual(["key"]);
    expect(pathsOf({ limits, mode: "shadow" })).toEqual(["key"]);
    for (const match of [{ paths: ["/a"] }, { hosts: ["a.test"] }, { methods: ["PUT"] }, { headers: { a: ["b"] } }]) {
      expect(pathsOf({ limits, match })).toEqual([]);
    }
    for (const key of [[], ["ip"], ["const:all"]]) expect(pathsOf({ limits, key })).toEqual([]);
    expect(pathsOf({ limits, mode: "off" })).toEqual([]);
  });

  it("is of a key that clients may leave out, unless its author said what happens then", () => {
    for (const part of ["header:a", "cookie:a", "query:a", "form:a", "jwt:a"]) {
      expect(pathsOf({ limits, key: ["ip", part] })).toEqual(["onMissingKey"]);
      for (const onMissingKey of ["skip", "deny", "shared"]) {
        expect(pathsOf({ limits, key: [part], onMissingKey })).toEqual([]);
      }
    }
    for (const part of ["ip", "path", "host", "method", "var:a", "const:a"]) {
      expect(pathsOf({ limits, key: [part] })).toEqual([]);
    }
    const [warning] = surprisesOf(policyNamed("p", { limits, key: ["header:X-A"] }), { key: ["header:X-A"] });
    expect(warning?.got).toBe("nothing: a request without header:x-a passes uncounted");
  });
});

describe("a warning about credentials that are stored as ids of consumers", () => {
  const plans = { planBy: "consumer", plans: { free: [fast] }, defaultPlan: "free" };
  const warningsFor = (document: object) => exposuresOf(policyFrom({ name: "p", ...plans, ...document }));

  it("names the part, and what to count by instead", () => {
    for (const part of ["header:x-api-key", "cookie:a", "header:authorization", "query:token"]) {
      const [warning, ...others] = warningsFor({ key: [part, "ip"] });
      expect([warning?.path, others]).toEqual(["key[0]", []]);
      expect(warning?.got).toContain(`${part}: `);
      expect(warning?.expected).toContain('"jwt:sub"');
    }
    expect(warningsFor({ key: ["header:a"], secret: { "header:a": true } })).toHaveLength(1);
  });

  it("is absent if the first part is no credential, or consumers are not asked for", () => {
    for (const part of ["jwt:sub", "header:x-customer", "ip"]) {
      expect(warningsFor({ key: [part, "header:x-api-key"] })).toEqual([]);
    }
    const key = ["header:x-api-key"];
    expect(warningsFor({ key, secret: { "header:x-api-key": false } })).toEqual([]);
    expect(warningsFor({ key, planBy: "header:x-api-key" })).toEqual([]);
    expect(exposuresOf(policyNamed("p", { limits: [fast], key }))).toEqual([]);
  });
});

describe("a warning about a setting without effect", () => {
  it("is absent if every setting has an effect", () => {
    expect(warningsOf(policyNamed("p", { limits: [fast], scope: "node", consistency: "exact" }))).toEqual([]);
    expect(warningsOf(policyNamed("p", { limits: [fast], onStoreFailure: "local" }))).toEqual([]);
    expect(warningsOf(leased(fast, { onStoreFailure: "deny" }))).toEqual([]);
    expect(warningsOf(leased({ ...fast, initial: 0 }))).toEqual([]);
    expect(warningsOf(leased({ ...fast, quota: 2, window: "1m" }, { cost: { from: "header:c" } }))).toEqual([]);
  });

  it("names what only Redis could do, with scope node", () => {
    expect(warningsOf(leased(fast, { scope: "node", onStoreFailure: "deny" }))).toEqual([
      { path: "consistency", expected: "exact, or scope cluster: on a node nothing is leased", got: '"leased"' },
      {
        path: "onStoreFailure",
        expected: "nothing, or scope cluster: a node asks nobody who could fail",
        got: '"deny"',
      },
    ]);
  });

  it("names how long a node would wait for Redis, which it never asks", () => {
    expect(warningsOf(policyNamed("p", { limits: [fast], maxStoreWait: "50ms" }))).toEqual([
      { path: "maxStoreWait", expected: "nothing, or scope cluster: a node waits for nobody", got: '"50ms"' },
    ]);
  });

  it.each([
    [{ ...fast, burst: 199 }, "burst", `at least 200, what refills in 500ms${inVain}`, "199"],
    [{ ...fast, initial: 0, warmUp: "30s" }, "warmUp", `nothing${inVain}`, '"30s"'],
    [{ ...fast, initial: 0, burst: 199 }, "burst", `at least 200, what refills in 500ms${inVain}`, "199"],
    [{ algorithm: "fixed-window", quota: 9, window: "499ms" }, "window", `at least 500ms${inVain}`, "499ms"],
    [{ algorithm: "fixed-window", quota: 9, window: "lifetime" }, "window", `a duration${inVain}`, '"lifetime"'],
    [{ algorithm: "sliding-window", quota: 9, window: "4s" }, "precision", `at least 500ms${inVain}`, "400ms"],
    ...["sliding-log", "leaky-bucket", "concurrency"].map((algorithm) => [
      { algorithm, quota: 9, ...(algorithm === "concurrency" ? {} : { window: "1m" }) },
      "algorithm",
      `token-bucket, fixed-window or sliding-window${inVain}`,
      `"${algorithm}"`,
    ]),
  ] as [object, string, string, string][])("names leasing, for the limit %o", (limit, field, expected, got) => {
    const policy = leased(limit);
    expect(warningsOf(policy)).toEqual([{ path: `limits[0].${field}`, expected, got }]);
    expect(compilePolicy("shop", policy).policy.store).toBe("exact");
    const beside = { key: ["ip"], overrides: [{ key: ["192.0.2.1"], mode: "off" }] };
    expect(warningsOf(leased(limit, beside))).toHaveLength(1);
  });

  it("names leasing, for a limit without room for two requests", () => {
    const expected = "at least 6, for two requests: a lease for one saves no call to Redis";
    const limit = { algorithm: "fixed-window", quota: 5, window: "1m" };
    expect(warningsOf(leased(limit, { cost: 3 }))).toEqual([{ path: "limits[0].quota", expected, got: "5" }]);
    expect(warningsOf(leased({ ...fast, quota: 1, window: "1m" }))).toMatchObject([
      { path: "limits[0].burst", got: "1" },
    ]);
    expect(warningsOf(leased(limit, { cost: 2 }))).toEqual([]);
  });

  it("names leasing, for a cost that only the response shows", () => {
    const policy = leased({ ...fast, burst: 1 }, { cost: { from: "response-bytes" } });
    expect(warningsOf(policy)).toEqual([
      { path: "cost.from", expected: `a cost that is known before the response${inVain}`, got: '"response-bytes"' },
    ]);
  });

  it("names leasing, for an override only", () => {
    const overrides = [
      { key: ["192.0.2.1"], mode: "off" },
      { key: ["*"], limits: [{ ...fast, burst: 50 }] },
    ];
    expect(warningsOf(leased(fast, { key: ["ip"], overrides }))).toEqual([
      {
        path: "overrides[1].limits",
        expected: `"fast": burst at least 200, what refills in 500ms${inVain}`,
        got: "50",
      },
    ]);
  });
});
