import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CompiledPolicy, compilePolicy } from "../../../limiter/src/compiled/compile.ts";
import {
  addToIndex,
  candidates,
  indexPolicies,
  meets,
  type PolicyIndex,
  removeFromIndex,
  singleCandidate,
} from "../../../limiter/src/index/policy-index.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
import { inJavaScript } from "../match/regexes.ts";
import { policyNamed } from "../policies.ts";

interface Fields {
  readonly app?: string;
  readonly priority?: number;
  readonly mode?: string;
  readonly key?: readonly string[];
  readonly hosts?: readonly string[];
  readonly paths?: readonly string[];
  readonly methods?: readonly string[];
  readonly headers?: Readonly<Record<string, readonly string[]>>;
}

interface Request {
  readonly host?: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function compiled(
  name: string,
  { app = "shop", priority = 0, mode = "enforce", key = [], ...match }: Fields = {},
): CompiledPolicy {
  return compilePolicy(app, policyNamed(name, { priority, mode, key, match }));
}

const nameOf = ({ name }: CompiledPolicy) => name;

/** Uses the index like the gateway: what is not needed is not read, and only conditional policies are checked. */
function namesMet(index: PolicyIndex, request: Request): string[] {
  const { host = "", path = "/", method = "GET", headers = {} } = request;
  const found =
    index.needsHost || index.needsPath
      ? candidates(index, index.needsHost ? host : "unread", index.needsPath ? path : "unread")
      : index.everywhere;
  const pathRead = index.needsPath ? path : "unread";
  return found
    .filter(
      (one) =>
        !one.policy.conditional || meets(one, pathRead, method, (name, values) => values[headers[name] ?? ""] === true),
    )
    .map(nameOf);
}

function namesFor(policies: readonly CompiledPolicy[], host: string): string[] {
  return namesMet(indexPolicies(policies), { host });
}

describe("with these policies", () => {
  const policies = [
    compiled("all", { priority: -1 }),
    compiled("api", { hosts: ["api.example.com"] }),
    compiled("below", { hosts: ["*.example.com"], paths: ["/v1/*"] }),
    compiled("books", { paths: ["/v1/books", "/v2/books"] }),
    compiled("either", { paths: ["/v1/books", "/v1/b*", "~^/v[0-9]+/books$"] }),
    compiled("free", { headers: { "x-plan": ["free", "trial"] } }),
    compiled("paid-eu", { headers: { "X-Plan": ["paid"], "x-region": ["eu"] } }),
    compiled("urgent", { priority: 5, hosts: ["api.example.com"], paths: ["/v1/books/*"], methods: ["PUT", "POST"] }),
    compiled("versions", { paths: ["~^/v[0-9]+/"] }),
  ];
  const index = indexPolicies(policies);

  test.each<[request: string, headers: Record<string, string>, met: string]>([
    ["GET example.org /", {}, "all"],
    ["GET example.org /", { "x-plan": "free" }, "free all"],
    ["GET example.org /", { "x-plan": "trial" }, "free all"],
    ["GET example.org /", { "x-plan": "Free" }, "all"],
    ["GET example.org /", { "x-plan": "free " }, "all"],
    ["GET example.org /", { "x-plan": "paid" }, "all"],
    ["GET example.org /", { "x-plan": "paid", "x-region": "eu" }, "paid-eu all"],
    ["GET example.org /", { "x-plan": "constructor", "x-region": "eu" }, "all"],
    ["GET example.org /v1/books", {}, "books either versions all"],
    ["GET example.org /v1/bo", {}, "either versions all"],
    ["GET example.org /v2/books", {}, "books either versions all"],
    ["GET example.org /v3/books", {}, "either versions all"],
    ["GET example.org /v3/book", {}, "versions all"],
    ["GET api.example.com /", {}, "api all"],
    ["GET api.example.com /v1/x", {}, "api below versions all"],
    ["GET eu.example.com /v1/x", {}, "below versions all"],
    ["GET api.example.com /v1/books/1", {}, "api below either versions all"],
    ["PUT api.example.com /v1/books/1", {}, "urgent api below either versions all"],
    ["PUT api.example.com /v1/books/1", { "x-plan": "free" }, "urgent api below either free versions all"],
    ["GET __proto__ /constructor", {}, "all"],
  ])("%s %j matches %s", (request, headers, met) => {
    const [method, host, path] = request.split(" ") as [string, string, string];
    // Lists that the index keeps give the same result the second time.
    for (let time = 0; time < 2; time++) {
      expect(namesMet(index, { method, host, path, headers }).join(" ")).toBe(met);
    }
  });
});

describe("by host, a request matches", () => {
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

  test("wildcards at every level", () => {
    expect(namesFor(policies, "eu.api.example.com")).toEqual(["any", "below-api", "below-com", "two"]);
    expect(namesFor(policies, "a.b.c.example.com")).toEqual(["any", "below-com", "two"]);
  });

  test("no wildcard by the bare name after its star", () => {
    expect(namesFor(policies, "example.com")).toEqual(["any"]);
    expect(namesFor(policies, "badexample.com")).toEqual(["any"]);
  });

  test("only policies for every host otherwise", () => {
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

describe("policies are ordered", () => {
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
    expect(index.everywhere.map(({ app, name }) => `${app}/${name}`)).toEqual([
      "shop/a",
      "shop/a-1",
      "shop/a0",
      "x/b",
      "y/b",
    ]);
  });

  test("not at all if they are off", () => {
    const policies = [compiled("off", { mode: "off", hosts: ["x"] }), compiled("shadow", { mode: "shadow" })];
    expect(namesFor(policies, "x")).toEqual(["shadow"]);
    expect(indexPolicies(policies).needsHost).toBe(false);
  });
});

test("what decides nothing need not be read", () => {
  const needs = (...fields: Fields[]) => {
    const { needsHost, needsPath, everywhere } = indexPolicies(fields.map((one, i) => compiled(`p${i}`, one)));
    return { needsHost, needsPath, everywhere: everywhere.length };
  };
  expect(needs()).toEqual({ needsHost: false, needsPath: false, everywhere: 0 });
  expect(needs({}, { methods: ["GET"] })).toEqual({ needsHost: false, needsPath: false, everywhere: 2 });
  expect(needs({}, { hosts: ["x"] })).toMatchObject({ needsHost: true, needsPath: false });
  expect(needs({}, { paths: ["/x"] })).toMatchObject({ needsHost: false, needsPath: true });
  expect(needs({}, { paths: ["~x"] })).toMatchObject({ needsHost: false, needsPath: true });
  expect(needs({ mode: "off", hosts: ["x"], paths: ["/x"] })).toMatchObject({ needsHost: false, needsPath: false });
});

test("a policy is conditional if the index cannot decide whether it matches", () => {
  const conditional = (fields: Fields) => compiled("x", fields).policy.conditional;
  expect(conditional({ hosts: ["x"], paths: ["/a", "/b/*"] })).toBe(false);
  expect(conditional({ paths: ["/a", "~b"] })).toBe(true);
  expect(conditional({ methods: ["GET"] })).toBe(true);
  expect(conditional({ headers: { "x-plan": ["free"] } })).toBe(true);
});

test("a policy does not take an inherited name for a method", () => {
  const policy = compiled("x", { methods: ["GET"] });
  for (const method of ["constructor", "__proto__", "toString", "get", ""]) {
    expect(meets(policy, "/", method, () => false)).toBe(false);
  }
});

test("a header is not read if the method or the path has ruled the policy out", () => {
  const policy = compiled("x", { methods: ["GET"], paths: ["~^/a"], headers: { "x-plan": ["free"] } });
  const unread = (): boolean => {
    throw new Error("read");
  };
  expect(meets(policy, "/a", "PUT", unread)).toBe(false);
  expect(meets(policy, "/b", "GET", unread)).toBe(false);
});

describe("an index of 10,000 policies", () => {
  const count = 10_000;
  const many = (fields: (i: number) => Fields) => Array.from({ length: count }, (_, i) => compiled(`p${i}`, fields(i)));

  /** @returns how long making the index and a request's first answer from it take */
  const elapsedMs = (policies: readonly CompiledPolicy[], request: Request, names: readonly string[]) => {
    const startMs = processorMs();
    const index = indexPolicies(policies);
    const first = namesMet(index, request);
    const elapsed = processorMs() - startMs;
    expect(first).toEqual(names);
    expect(namesMet(index, request)).toEqual(names);
    return elapsed;
  };

  // Comparing each host with each policy took several seconds.
  test("with a host each is made in well under a second", () => {
    const policies = many((i) => ({ hosts: [`h${i}.example.com`] }));
    policies.push(compiled("any"), compiled("below", { hosts: ["*.example.com"] }));
    expect(elapsedMs(policies, { host: "h77.example.com" }, ["any", "below", "p77"])).toBeLessThan(500);
  });

  test("with a wildcard each is made in well under a second", () => {
    const policies = many((i) => ({ hosts: [`*.h${i}.example.com`] }));
    policies.push(compiled("below", { hosts: ["*.com"] }));
    expect(elapsedMs(policies, { host: "x.h77.example.com" }, ["below", "p77"])).toBeLessThan(500);
  });

  test("with one host is made in well under a second", () => {
    const policies = many(() => ({ hosts: ["x", "*.x"] }));
    expect(elapsedMs(policies, { host: "x" }, policies.map(nameOf).sort())).toBeLessThan(500);
  });

  test("with a prefix each on one host is made in well under a second", () => {
    const policies = many((i) => ({ hosts: ["x"], paths: [`/${i}/*`] }));
    expect(elapsedMs(policies, { host: "x", path: "/77/a" }, ["p77"])).toBeLessThan(500);
  });

  test("with nested prefixes is made in well under a second", () => {
    const policies = many((i) => ({ paths: [`/${"a".repeat(i % 1_000)}*`] }));
    const names = policies.filter((_, i) => i % 1_000 <= 5).map(nameOf);
    expect(elapsedMs(policies, { path: "/aaaaab" }, names.sort())).toBeLessThan(500);
  });

  test("on 1,000 hosts is loaded and looked up: every host, every path", () => {
    const policies = many((i) => ({
      hosts: [`h${i % 1_000}.example.com`],
      paths: [`/p${Math.floor(i / 1_000)}`, `/p${Math.floor(i / 1_000)}/*`],
    }));
    policies.push(compiled("any-books", { paths: ["/p3/books"] }));
    const startMs = processorMs();
    const index = indexPolicies(policies);
    expect(processorMs() - startMs).toBeLessThan(500);
    for (let i = 0; i < count; i++) {
      const host = `h${i % 1_000}.example.com`;
      const path = `/p${Math.floor(i / 1_000)}`;
      for (const asked of [path, `${path}/x`]) {
        const found = candidates(index, host, asked).map(nameOf);
        if (found.join() !== `p${i}`) expect(found).toEqual([`p${i}`]);
      }
    }
    expect(candidates(index, "h5.example.com", "/p3/books").map(nameOf)).toEqual(["any-books", "p3005"]);
    expect(candidates(index, "other", "/p3/books").map(nameOf)).toEqual(["any-books"]);
    expect(candidates(index, "h5.example.com", "/other")).toEqual([]);
  });

  test("answers in a time that does not depend on how many there are", () => {
    const lookup = (policies: number) => {
      const index = indexPolicies(
        Array.from({ length: policies }, (_, i) =>
          compiled(`p${i}`, { hosts: [`h${i % 1_000}`], paths: [`/api/${i}/*`, `/exact/${i}`] }),
        ),
      );
      const times = Array.from({ length: 20 }, () => {
        const startMs = processorMs();
        for (let i = 0; i < 10_000; i++) candidates(index, "h7", i % 2 === 0 ? "/api/7/books" : "/exact/7");
        return processorMs() - startMs;
      });
      return Math.min(...times);
    };
    expect(lookup(count)).toBeLessThan(lookup(10) * 3 + 1);
  });
});

describe("what an index keeps", () => {
  const kept = ({ kept: lists }: PolicyIndex) => lists;

  test("does not grow with the paths and hosts that clients send", () => {
    const index = indexPolicies([
      compiled("a", { hosts: ["x", "*.y"], paths: ["/a/*", "/b"] }),
      compiled("any"),
      compiled("regex", { paths: ["~c"] }),
    ]);
    const ask = (i: number) => {
      for (const host of ["x", `${i}.y`, `${i}`]) {
        for (const path of [`/a/${i}`, "/b", `/${i}`]) candidates(index, host, path);
      }
    };
    ask(0);
    const before = kept(index);
    for (let i = 1; i < 2_000; i++) ask(i);
    expect(kept(index)).toBe(before);
  });

  test("is bounded if very many policies have very many patterns, and answers stay right", () => {
    const policies = Array.from({ length: 3_000 }, (_, i) => compiled(`all-${i}`));
    for (let i = 0; i < 500; i++) policies.push(compiled(`path-${i}`, { paths: [`/${i}`] }));
    const index = indexPolicies(policies);
    let most = 0;
    for (let i = 0; i < 1_000; i++) {
      const found = candidates(index, "", `/${i % 500}`);
      const last = found[3_000]?.name;
      if (found.length !== 3_001 || last !== `path-${i % 500}`)
        expect([found.length, last]).toEqual([3_001, `path-${i % 500}`]);
      most = Math.max(most, kept(index));
    }
    expect(most).toBeGreaterThan(900_000);
    expect(most).toBeLessThanOrEqual(1_000_000);
  });

  test("costs no more for a host with very many dots", () => {
    const index = indexPolicies([compiled("below", { hosts: ["*.example.com"] })]);
    const host = `${"a.".repeat(500_000)}example.com`;
    const startMs = processorMs();
    expect(candidates(index, host, "/").map(nameOf)).toEqual(["below"]);
    expect(processorMs() - startMs).toBeLessThan(50);
  });
});

describe("whatever policies there are", () => {
  const label = fc.constantFrom("a", "b", "com", "x-y");
  const host = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."));
  const hostPattern = fc.tuple(fc.boolean(), host).map(([wildcard, name]) => (wildcard ? `*.${name}` : name));
  const path = fc.array(fc.constantFrom("a", "b", "ab", "é"), { maxLength: 3 }).map((parts) => `/${parts.join("/")}`);
  const pathPattern = fc.oneof(
    fc.tuple(path, fc.constantFrom("", "*", "/*")).map(([text, end]) => `${text}${end}`.replace("//", "/")),
    fc.constantFrom("~^/a", "~b$", "~^/(a|b)+$", "~/a/.*b", "~[^a/]$", "~^/[^/]{2}/?"),
  );
  const plan = fc.constantFrom("free", "trial", "paid");
  const fields = fc.record(
    {
      priority: fc.integer({ min: -1, max: 1 }),
      mode: fc.constantFrom("enforce", "shadow", "off"),
      hosts: fc.array(hostPattern, { minLength: 1, maxLength: 3 }),
      paths: fc.array(pathPattern, { minLength: 1, maxLength: 4 }),
      methods: fc.array(fc.constantFrom("GET", "PUT"), { minLength: 1, maxLength: 2 }),
      headers: fc.dictionary(fc.constantFrom("X-Plan", "x-other"), fc.array(plan, { minLength: 1, maxLength: 2 }), {
        minKeys: 1,
      }),
    },
    { requiredKeys: [] },
  );
  const request = fc.record({
    host,
    path,
    method: fc.constantFrom("GET", "PUT", "POST"),
    headers: fc.dictionary(fc.constantFrom("x-plan", "x-other"), plan),
  });

  const hostMatches = (wanted: string, actual: string) =>
    wanted.startsWith("*.") ? actual.endsWith(wanted.slice(1)) && actual.length > wanted.length - 1 : wanted === actual;
  const pathMatches = (wanted: string, actual: string) => {
    if (wanted.startsWith("~")) return inJavaScript(wanted.slice(1)).test(actual);
    return wanted.endsWith("*") ? actual.startsWith(wanted.slice(0, -1)) : wanted === actual;
  };
  const matches = (wanted: Fields, { host: at, path: to, method: by, headers: sent }: Required<Request>) =>
    wanted.mode !== "off" &&
    (wanted.hosts?.some((one) => hostMatches(one, at)) ?? true) &&
    (wanted.paths?.some((one) => pathMatches(one, to)) ?? true) &&
    (wanted.methods?.includes(by) ?? true) &&
    Object.entries(wanted.headers ?? {}).every(([name, values]) => values.includes(sent[name.toLowerCase()] ?? ""));

  test("a request matches those that a check of each one by one finds, in order", () => {
    let pairs = 0;
    fc.assert(
      fc.property(
        fc.array(fields, { maxLength: 10 }),
        fc.array(request, { minLength: 15, maxLength: 15 }),
        (all, requests) => {
          const index = indexPolicies(all.map((one, i) => compiled(`p${i}`, one)));
          for (const one of requests) {
            const expected = all
              .map((wanted, i) => ({ name: `p${i}`, priority: wanted.priority ?? 0, wanted }))
              .filter(({ wanted }) => matches(wanted, one))
              .sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1))
              .map(({ name }) => name);
            const found = namesMet(index, one);
            if (found.join() !== expected.join()) expect([one, found]).toEqual([one, expected]);
            pairs += all.length;
          }
        },
      ),
      { numRuns: 2_500 },
    );
    expect(pairs).toBeGreaterThanOrEqual(100_000);
  });
});

describe("a path with parameters", () => {
  const policies = [
    compiled("login", { paths: ["/login"] }),
    compiled("below", { paths: ["/a/*"], priority: -1 }),
    compiled("word", { paths: ["~^/[a-z]+$", "/login;x"], priority: 1 }),
    compiled("literal", { paths: ["/login;x", "~^/;"], priority: 2 }),
    compiled("hosted", { hosts: ["h"], paths: ["/login;y"], priority: 3 }),
    compiled("all", { priority: -2 }),
  ];
  const index = indexPolicies(policies);
  test.each([
    ["/login", ["word", "login", "all"]],
    ["/login;z", ["word", "login", "all"]],
    ["/login;x", ["literal", "word", "login", "all"]],
    ["/;a/login", ["literal", "word", "login", "all"]],
    ["/a;x/b", ["below", "all"]],
    ["/b;x/c", ["all"]],
  ])("meets the policies of both readings in order, each once: %s", (path, names) => {
    // Twice: lists are kept.
    for (let i = 0; i < 2; i++) expect(namesMet(index, { path })).toEqual(names);
  });

  test("meets them also where a host's single policy is known", () => {
    const alone = indexPolicies([
      compiled("y", { hosts: ["h"], paths: ["/login;y"] }),
      compiled("login", { hosts: ["h"], paths: ["/login"] }),
    ]);
    for (let i = 0; i < 2; i++) {
      expect(namesMet(alone, { host: "h", path: "/login;y" })).toEqual(["login", "y"]);
      expect(singleCandidate(alone, "h", "/login;y")).toBeUndefined();
    }
  });
});

test("requests that servers read differently are turned away by policies that are enforced, and by none in shadow mode", () => {
  const guards = (...fields: Fields[]) => {
    const { guardsHosts, guardsPaths } = indexPolicies(fields.map((one, i) => compiled(`p${i}`, one)));
    return [guardsHosts, guardsPaths];
  };
  expect(guards({}, { mode: "shadow", hosts: ["x"], paths: ["/x"] }, { mode: "off", paths: ["/x"] })).toEqual([
    false,
    false,
  ]);
  expect(guards({ paths: ["/x"] })).toEqual([false, true]);
  expect(guards({ key: ["ip", "path"] })).toEqual([false, true]);
  expect(guards({ hosts: ["x"], key: ["ip"] })).toEqual([true, false]);
  const index = indexPolicies([]);
  const policy = compiled("p", { hosts: ["x"], paths: ["/x"] });
  addToIndex(index, policy);
  expect([index.guardsHosts, index.guardsPaths]).toEqual([true, true]);
  removeFromIndex(index, policy);
  expect([index.guardsHosts, index.guardsPaths]).toEqual([false, false]);
});
