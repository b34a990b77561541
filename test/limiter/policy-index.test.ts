import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { indexPolicies, matchesTarget, policiesForHost } from "../../limiter/src/match/policy-index.ts";
import { type CompiledPolicy, compilePolicy } from "../../limiter/src/policy/compile.ts";
import { policyNamed } from "./policies.ts";

interface Fields {
  readonly app?: string;
  readonly priority?: number;
  readonly mode?: string;
  readonly hosts?: readonly string[];
  readonly paths?: readonly string[];
  readonly methods?: readonly string[];
}

function compiled(
  name: string,
  { app = "shop", priority = 0, mode = "enforce", ...match }: Fields = {},
): CompiledPolicy {
  return compilePolicy(app, policyNamed(name, { priority, mode, match }));
}

function namesFor(policies: readonly CompiledPolicy[], host: string): string[] {
  return policiesForHost(indexPolicies(policies), host).map(({ policy }) => policy.name);
}

describe("by host, a request meets", () => {
  const policies = [
    compiled("any"),
    compiled("api", { hosts: ["api.example.com"] }),
    compiled("below-com", { hosts: ["*.example.com"] }),
    compiled("below-api", { hosts: ["*.api.example.com"] }),
    compiled("two", { hosts: ["example.net", "*.example.com"] }),
  ];

  test("the policies that name its host, those of a wildcard above it and those of every host", () => {
    expect(namesFor(policies, "api.example.com")).toEqual(["any", "api", "below-com", "two"]);
  });

  test("wildcards at every height", () => {
    expect(namesFor(policies, "eu.api.example.com")).toEqual(["any", "below-api", "below-com", "two"]);
    expect(namesFor(policies, "a.b.c.example.com")).toEqual(["any", "below-com", "two"]);
  });

  test("no wildcard by the name under which it stands", () => {
    expect(namesFor(policies, "example.com")).toEqual(["any"]);
    expect(namesFor(policies, "badexample.com")).toEqual(["any"]);
  });

  test("only those of every host otherwise", () => {
    expect(namesFor(policies, "example.net")).toEqual(["any", "two"]);
    for (const other of ["example.org", "", "com", "api.example.com.evil.org"]) {
      expect(namesFor(policies, other)).toEqual(["any"]);
    }
  });

  test("nothing that an object inherits", () => {
    for (const host of ["constructor", "__proto__", "toString", "x.__proto__", "x.constructor"]) {
      expect(namesFor([compiled("any")], host)).toEqual(["any"]);
    }
    const odd = [compiled("odd", { hosts: ["__proto__", "*.__proto__", "constructor"] })];
    for (const host of ["__proto__", "x.__proto__", "constructor"]) expect(namesFor(odd, host)).toEqual(["odd"]);
    expect(namesFor(odd, "toString")).toEqual([]);
  });
});

describe("policies are evaluated", () => {
  test("by priority, the highest first", () => {
    const policies = [compiled("a", { priority: -1 }), compiled("b"), compiled("c", { priority: 10 })];
    expect(namesFor(policies, "x")).toEqual(["c", "b", "a"]);
  });

  test("by name among equals, and by app among namesakes", () => {
    const policies = [
      compiled("b", { app: "y" }),
      compiled("a-1"),
      compiled("b", { app: "x" }),
      compiled("a"),
      compiled("a0"),
    ];
    const index = indexPolicies(policies);
    expect(index.anyHost.map(({ app, policy }) => `${app}/${policy.name}`)).toEqual([
      "shop/a",
      "shop/a-1",
      "shop/a0",
      "x/b",
      "y/b",
    ]);
  });

  test("not at all when they are off", () => {
    const policies = [compiled("off", { mode: "off", hosts: ["x"] }), compiled("shadow", { mode: "shadow" })];
    expect(namesFor(policies, "x")).toEqual(["shadow"]);
    expect(indexPolicies(policies).needsHost).toBe(false);
  });
});

test("the host need be read only where a policy names one", () => {
  expect(indexPolicies([compiled("any")]).needsHost).toBe(false);
  expect(indexPolicies([compiled("any"), compiled("one", { hosts: ["x"] })]).needsHost).toBe(true);
  expect(indexPolicies([])).toMatchObject({ needsHost: false, anyHost: [] });
});

describe("an index of 10,000 policies", () => {
  const count = 10_000;
  const elapsedMs = (policies: readonly CompiledPolicy[], host: string, names: readonly string[]) => {
    const startMs = performance.now();
    const index = indexPolicies(policies);
    const elapsed = performance.now() - startMs;
    expect(policiesForHost(index, host).map(({ policy }) => policy.name)).toEqual(names);
    return elapsed;
  };

  // Comparing each host with each policy took several seconds.
  test("of a host each is made in well under a second", () => {
    const policies = Array.from({ length: count }, (_, i) => compiled(`p${i}`, { hosts: [`h${i}.example.com`] }));
    policies.push(compiled("any"), compiled("below", { hosts: ["*.example.com"] }));
    expect(elapsedMs(policies, "h77.example.com", ["any", "below", "p77"])).toBeLessThan(500);
  });

  test("of a wildcard each is made in well under a second", () => {
    const policies = Array.from({ length: count }, (_, i) => compiled(`p${i}`, { hosts: [`*.h${i}.example.com`] }));
    policies.push(compiled("below", { hosts: ["*.com"] }));
    expect(elapsedMs(policies, "x.h77.example.com", ["below", "p77"])).toBeLessThan(500);
  });

  test("of one host is made in well under a second", () => {
    const policies = Array.from({ length: count }, (_, i) => compiled(`p${i + count}`, { hosts: ["x", "*.x"] }));
    const names = policies.map(({ policy }) => policy.name);
    expect(elapsedMs(policies, "x", names)).toBeLessThan(500);
  });
});

describe("by path and method, a policy", () => {
  test("without either matches all", () => {
    expect(matchesTarget(compiled("x"), "/any", "BREW")).toBe(true);
  });

  test("with both needs both", () => {
    const policy = compiled("x", { paths: ["/a", "/b/*"], methods: ["GET", "POST"] });
    expect(matchesTarget(policy, "/b/1", "POST")).toBe(true);
    expect(matchesTarget(policy, "/b/1", "PUT")).toBe(false);
    expect(matchesTarget(policy, "/c", "GET")).toBe(false);
  });

  test("takes no inherited name for a method", () => {
    const policy = compiled("x", { methods: ["GET"] });
    for (const method of ["constructor", "__proto__", "toString", "get", ""]) {
      expect(matchesTarget(policy, "/", method)).toBe(false);
    }
  });
});

describe("whatever policies there are", () => {
  const label = fc.constantFrom("a", "b", "com", "x-y");
  const host = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."));
  const pattern = fc.tuple(fc.boolean(), host).map(([wildcard, name]) => (wildcard ? `*.${name}` : name));
  const path = fc.array(fc.constantFrom("a", "b"), { maxLength: 3 }).map((parts) => `/${parts.join("/")}`);
  const pathPattern = fc
    .tuple(path, fc.constantFrom("", "*", "/*"))
    .map(([text, end]) => `${text}${end}`.replace("//", "/"));
  const fields = fc.record(
    {
      priority: fc.integer({ min: -1, max: 1 }),
      mode: fc.constantFrom("enforce", "shadow", "off"),
      hosts: fc.array(pattern, { minLength: 1, maxLength: 3 }),
      paths: fc.array(pathPattern, { minLength: 1, maxLength: 3 }),
      methods: fc.array(fc.constantFrom("GET", "PUT"), { minLength: 1, maxLength: 2 }),
    },
    { requiredKeys: [] },
  );

  const hostMatches = (wanted: string, actual: string) =>
    wanted.startsWith("*.") ? actual.endsWith(wanted.slice(1)) && actual.length > wanted.length - 1 : wanted === actual;
  const pathMatches = (wanted: string, actual: string) =>
    wanted.endsWith("*") ? actual.startsWith(wanted.slice(0, -1)) : wanted === actual;

  test("a request meets those that a reading of each one by one finds, in order", () => {
    fc.assert(
      fc.property(
        fc.array(fields, { maxLength: 8 }),
        host,
        path,
        fc.constantFrom("GET", "PUT", "POST"),
        (all, at, to, by) => {
          const policies = all.map((one, i) => compiled(`p${i}`, one));
          const found = policiesForHost(indexPolicies(policies), at)
            .filter((policy) => matchesTarget(policy, to, by))
            .map(({ policy }) => policy.name);
          const expected = all
            .map((one, i) => ({ name: `p${i}`, priority: one.priority ?? 0, one }))
            .filter(({ one }) => one.mode !== "off")
            .filter(({ one }) => one.hosts === undefined || one.hosts.some((wanted) => hostMatches(wanted, at)))
            .filter(({ one }) => one.paths === undefined || one.paths.some((wanted) => pathMatches(wanted, to)))
            .filter(({ one }) => one.methods === undefined || (one.methods as readonly string[]).includes(by))
            .sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1))
            .map(({ name }) => name);
          expect(found).toEqual(expected);
        },
      ),
      { numRuns: 3_000 },
    );
  });
});
