import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { validatePolicy } from "../../../limiter/src/document/validate.ts";
import { expectedKinds, mostKinds } from "../../../limiter/src/key/key-patterns.ts";
import { policyFrom, smallestDocument, smallestLimit } from "../policies.ts";

// The problems of single documents are in ../vectors/policy-documents.json, which ../parity and ../gateway check under Node
// and LuaJIT. This file has what holds for all documents.

const pathsOf = (document: unknown) => validatePolicy(document).problems.map(({ path }) => path);

describe("a policy document", () => {
  test("with a name and one limit has every default", () => {
    expect(validatePolicy(smallestDocument)).toEqual({
      problems: [],
      policy: {
        name: "books",
        description: "",
        mode: "enforce",
        priority: 0,
        match: { hosts: [], paths: [], methods: [], headers: {} },
        key: [],
        onMissingKey: "skip",
        limits: [
          { name: "default", algorithm: "token-bucket", quota: 10, windowUs: 1_000_000, burst: 10, precisionUs: 0 },
        ],
        cost: 1,
        scope: "node",
        onStoreFailure: "local",
        onLimit: { action: "reject", status: 429, body: undefined, headers: [] },
      },
    });
  });

  test("gets all its problems at once", () => {
    const document = {
      name: "Books",
      colour: "red",
      limits: [
        { ...smallestLimit, quota: -1 },
        { ...smallestLimit, window: "5 minutes" },
      ],
    };
    expect(pathsOf(document).sort()).toEqual([
      "colour",
      "limits[0].quota",
      "limits[1].name",
      "limits[1].window",
      "name",
    ]);
  });

  test("has finite numbers: no NaN, no infinity", () => {
    for (const quota of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e300]) {
      expect(pathsOf({ ...smallestDocument, limits: [{ ...smallestLimit, quota }] })).toEqual(["limits[0].quota"]);
      expect(pathsOf({ ...smallestDocument, priority: quota })).toEqual(["priority"]);
    }
    expect(pathsOf({ ...smallestDocument, cost: Number.NaN })).toEqual(["cost"]);
  });

  test("has a cost that is a positive whole number, and not a text that reads like one", () => {
    const largest = { ...smallestLimit, quota: 2 ** 31 };
    for (const cost of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31 + 1, "1e9", "1", null]) {
      const { problems } = validatePolicy({ ...smallestDocument, limits: [largest], cost });
      expect(problems).toMatchObject([{ path: "cost", expected: "an integer from 1 to 2147483648, or an object" }]);
    }
    for (const cost of [1, 1e9, 2 ** 31]) expect(pathsOf({ ...smallestDocument, limits: [largest], cost })).toEqual([]);
  });

  test("must name a header if it has headers at all", () => {
    // Lua has one empty table for both, so the vectors do not have this.
    for (const [headers, got] of [
      [{}, "an object"],
      [[], "a list of 0"],
    ]) {
      expect(validatePolicy({ ...smallestDocument, match: { headers } }).problems).toEqual([
        { path: "match.headers", expected: "an object of 1 to 16 fields", got },
      ]);
    }
  });

  test("treats a field that is undefined as absent", () => {
    expect(
      validatePolicy({ ...smallestDocument, mode: undefined, colour: undefined }).problems.map(({ path }) => path),
    ).toEqual(["colour"]);
  });

  test("that is not an object gets that as its problem", () => {
    for (const document of [undefined, null, "x", 5, true, [], [smallestDocument], () => 1, Symbol("x"), 5n]) {
      expect(validatePolicy(document)).toMatchObject({ problems: [{ path: "", expected: "an object" }] });
    }
  });

  test("is refused without a word about values that are right", () => {
    expect(validatePolicy({ ...smallestDocument, limits: [{ ...smallestLimit, quota: 0 }], cost: 5 }).problems).toEqual(
      [{ path: "limits[0].quota", expected: "an integer from 1 to 2147483648", got: "0" }],
    );
  });
});

describe("a cost that the request states", () => {
  const limits = [
    { ...smallestLimit, quota: 50, window: "1s" },
    { ...smallestLimit, name: "few", burst: 20 },
  ];
  const sourceOf = (cost: unknown) => policyFrom({ name: "x", limits, cost }).costSource;

  test("has as its default max the least that any limit ever holds", () => {
    expect(sourceOf({ from: "header:X-Cost" })).toEqual({
      from: "header",
      name: "x-cost",
      default: 1,
      max: 20,
      room: 1,
    });
    expect(sourceOf({ from: "request-bytes", default: 3, max: 7 })).toEqual({
      from: "request-bytes",
      name: "",
      default: 3,
      max: 7,
      room: 7,
    });
    expect(policyFrom({ name: "x", limits, cost: { from: "request-bytes", default: 3 } }).cost).toBe(3);
    expect(sourceOf(5)).toBeUndefined();
  });

  test.each([
    [{}, "cost.from", '"header:NAME", "request-bytes" or "response-bytes"', "nothing"],
    [{ from: "response-bytes", max: 21 }, "cost.max", "nothing: response-bytes has no max", "21"],
    [{ from: "response-bytes", default: 3 }, "cost.default", "nothing: response-bytes has no default", "3"],
    [{ from: "header:" }, "cost.from", '"header:NAME", "request-bytes" or "response-bytes"', '"header:"'],
    [{ from: "query:cost" }, "cost.from", '"header:NAME", "request-bytes" or "response-bytes"', '"query:cost"'],
    [{ from: "request-bytes", min: 1 }, "cost.min", "no such field; known here: from, default, max", "1"],
    [{ from: "request-bytes", default: 0 }, "cost.default", "an integer from 1 to 20", "0"],
    [{ from: "request-bytes", max: 1.5 }, "cost.max", "an integer from 1 to 20", "1.5"],
    [{ from: "request-bytes", max: 21 }, "cost.max", "at most 20, which is all that limits[1] ever holds", "21"],
    [
      { from: "request-bytes", default: 21 },
      "cost.default",
      "at most 20, which is all that limits[1] ever holds",
      "21",
    ],
    [{ from: "request-bytes", default: 9, max: 8 }, "cost.default", "at most 8, the max", "9"],
  ])("reports what is wrong with %j", (cost, path, expected, got) => {
    expect(validatePolicy({ name: "x", limits, cost }).problems).toEqual([{ path, expected, got }]);
  });
});

describe("a cost of the response's bytes", () => {
  test.each(["token-bucket", "fixed-window", "sliding-window", "sliding-log"])("goes with %s", (algorithm) => {
    const limits = [{ algorithm, quota: 50, window: "1s" }];
    const { cost, costSource } = policyFrom({ name: "x", limits, cost: { from: "response-bytes" } });
    expect({ cost, costSource }).toEqual({
      cost: 1,
      costSource: { from: "response-bytes", name: "", default: 1, max: 50, room: 1 },
    });
  });

  test.each(["leaky-bucket", "concurrency"])("does not go with %s", (algorithm) => {
    const limit = { name: "b", algorithm, quota: 50, ...(algorithm === "concurrency" ? {} : { window: "1s" }) };
    const limits = [{ algorithm: "fixed-window", quota: 50, window: "1s" }, limit];
    expect(validatePolicy({ name: "x", limits, cost: { from: "response-bytes" } }).problems).toEqual([
      {
        path: "limits[1].algorithm",
        expected: "one of token-bucket, fixed-window, sliding-window, sliding-log, where response-bytes are the cost",
        got: `"${algorithm}"`,
      },
    ]);
  });
});

describe("the secrecy of a key's parts", () => {
  const document = { ...smallestDocument, key: ["ip", "header:X-User", "header:authorization", "cookie:sid"] };

  test("is that of the parts that the policy names", () => {
    const secret = { ip: true, "header:x-user": false, "header:authorization": true };
    const { policy, problems } = validatePolicy({ ...document, secret });
    expect([problems, policy?.key.map((part) => part.secret)]).toEqual([[], [true, false, true, undefined]]);
  });

  test.each([
    [{}, "secret", "an object of 1 to 8 fields", "an object"],
    [{ "header:x-org": true }, "secret.header:x-org", "a part of the policy's key", '"header:x-org"'],
    [{ user: true }, "secret.user", /^a key part: "ip"/, '"user"'],
    [{ ip: "yes" }, "secret.ip", "true or false", '"yes"'],
    [{ "header:Authorization": false }, "secret.header:Authorization", /^true: these values are credentials$/, "false"],
    [{ "cookie:sid": false }, "secret.cookie:sid", /^true: these values are credentials$/, "false"],
  ])("is refused: %j", (secret, path, expected, got) => {
    const matching = typeof expected === "string" ? expected : expect.stringMatching(expected);
    expect(validatePolicy({ ...document, secret }).problems).toEqual([{ path, expected: matching, got }]);
  });
});

describe("the keys of overrides and exemptions", () => {
  // Beginnings of as many lengths in bytes.
  const keysOf = (kinds: number) => Array.from({ length: 500 }, (_, i) => [`${"é".repeat(1 + (i % kinds))}*`, `${i}`]);
  const document = { ...smallestDocument, key: ["header:x-org", "header:x-user"] };
  const overridden = (kinds: number) => ({
    ...document,
    overrides: keysOf(kinds).map((key) => ({ key, mode: "off" })),
  });
  const exempting = (kinds: number) => ({ ...document, exempt: { keys: keysOf(kinds) } });

  test("may be of so many kinds that a request is found soon, however many they are", () => {
    expect(validatePolicy(overridden(mostKinds)).problems).toEqual([]);
    expect(validatePolicy(exempting(mostKinds)).problems).toEqual([]);
  });

  test("are refused if they are of more kinds", () => {
    const problem = { expected: expectedKinds, got: `${mostKinds + 1} kinds` };
    expect(validatePolicy(overridden(mostKinds + 1)).problems).toEqual([{ path: "overrides", ...problem }]);
    expect(validatePolicy(exempting(mostKinds + 1)).problems).toEqual([{ path: "exempt.keys", ...problem }]);
  });
});

describe("overrides", () => {
  const own = [
    { name: "burst", algorithm: "token-bucket", quota: 2, window: "1s", burst: 10 },
    { name: "daily", algorithm: "fixed-window", quota: 5000, window: "1d" },
  ];
  const document = { name: "x", key: ["ip", "header:x-user"], limits: own };
  const vip = { name: "burst", algorithm: "token-bucket", quota: 50, window: "1m", burst: 100 };
  const problemsOf = (override: unknown, more = {}) =>
    validatePolicy({ ...document, ...more, overrides: [override] }).problems;

  test("have the policy's limits, of which they change some, and its mode by default", () => {
    const { limits, overrides } = policyFrom({
      ...document,
      mode: "shadow",
      overrides: [
        { key: ["*", "vip-42"], limits: [vip] },
        { key: ["192.0.2.1", "*"], mode: "off" },
      ],
    });
    expect(overrides).toEqual([
      {
        key: ["*", "vip-42"],
        mode: "shadow",
        limits: [
          { name: "burst", algorithm: "token-bucket", quota: 50, windowUs: 60_000_000, burst: 100, precisionUs: 0 },
          limits[1],
        ],
      },
      { key: ["192.0.2.1", "*"], mode: "off", limits },
    ]);
    expect(policyFrom({ ...document, overrides: [] }).overrides).toBeUndefined();
  });

  test.each([
    [{ limits: [vip] }, "overrides[0].key", "a list of 2: a pattern for each part of the policy's key", "nothing"],
    [{ key: ["*", "a"] }, "overrides[0]", "limits, or a mode, or both", "neither"],
    [
      { key: ["*"], mode: "off" },
      "overrides[0].key",
      "a list of 2: a pattern for each part of the policy's key",
      "a list of 1",
    ],
    [{ key: ["10.0.0.0/8", "*"], mode: "off" }, "overrides[0].key[0]", /^an address, a network/, '"10.0.0.0/8"'],
    [{ key: ["*", "a*b"], mode: "off" }, "overrides[0].key[1]", /^a value, "\*" for any/, '"a*b"'],
    [{ key: ["1*2", "*"], mode: "off" }, "overrides[0].key[0]", /^a value, "\*" for any/, '"1*2"'],
    [{ key: ["*", "a".repeat(1025)], mode: "off" }, "overrides[0].key[1]", /at most 1024 bytes$/, /^"a+…"$/],
    [{ key: ["*", "*"], mode: "on" }, "overrides[0].mode", "one of enforce, shadow, off", '"on"'],
    [
      { key: ["*", "*"], limits: [{ ...vip, name: "hourly" }] },
      "overrides[0].limits[0].name",
      "the name of one of the policy's limits",
      '"hourly"',
    ],
    [
      { key: ["*", "*"], limits: [{ ...own[1], name: "burst" }] },
      "overrides[0].limits[0].algorithm",
      '"token-bucket", as of the policy\'s limit of that name',
      '"fixed-window"',
    ],
    [
      { key: ["*", "*"], limits: [vip, vip] },
      "overrides[0].limits[1].name",
      "a name that overrides[0].limits[0] does not have",
      '"burst"',
    ],
    [{ key: ["*", "*"], limits: [] }, "overrides[0].limits", "a list of 1 to 16", "a list of 0"],
    [
      { key: ["*", "*"], limits: [{ ...own[1], burst: 3 }] },
      "overrides[0].limits[0].burst",
      "nothing: fixed-window has no burst",
      "3",
    ],
  ])("report what is wrong with %j", (override, path, expected, got) => {
    const matching = (text: string | RegExp) => (typeof text === "string" ? text : expect.stringMatching(text));
    expect(problemsOf(override)).toEqual([{ path, expected: matching(expected), got: matching(got) }]);
  });

  test("must hold what a request costs", () => {
    const few = { key: ["*", "*"], limits: [{ ...vip, burst: 2 }] };
    expect(problemsOf(few, { cost: 3 })).toEqual([
      { path: "cost", expected: "at most 2, which is all that overrides[0].limits[0] ever holds", got: "3" },
    ]);
    expect(problemsOf(few, { cost: 2 })).toEqual([]);
  });

  test("are not validated against an invalid key or invalid limits", () => {
    expect(problemsOf({ key: ["a"], mode: "off" }, { key: ["ip", "x"] }).map(({ path }) => path)).toEqual(["key[1]"]);
    expect(problemsOf({ key: ["*", "*"], limits: [vip] }, { limits: 5 }).map(({ path }) => path)).toEqual(["limits"]);
  });

  test("are at most a thousand, each checked", () => {
    const thousand = Array.from({ length: 1000 }, (_, i) => ({ key: ["*", `u${i}`], limits: [vip] }));
    expect(validatePolicy({ ...document, overrides: thousand }).problems).toEqual([]);
    expect(pathsOf({ ...document, overrides: [...thousand, thousand[0]] })).toEqual(["overrides"]);
    expect(pathsOf({ ...document, overrides: thousand.with(999, { key: ["*"], mode: "off" } as never) })).toEqual([
      "overrides[999].key",
    ]);
  });
});

describe("exempt", () => {
  const document = { ...smallestDocument, key: ["ip", "header:x-user"] };

  test.each([
    [{ cidrs: ["10.0.0.0/33"] }, "exempt.cidrs[0]", /^a network like/, '"10.0.0.0/33"'],
    [{ cidrs: ["localhost"] }, "exempt.cidrs[0]", /^a network like/, '"localhost"'],
    [{ cidrs: "10.0.0.0/8" }, "exempt.cidrs", "a list of 0 to 1000", '"10.0.0.0/8"'],
    [{ keys: [["a"]] }, "exempt.keys[0]", /^a list of 2: /, "a list of 1"],
    [{ keys: ["a"] }, "exempt.keys[0]", "a list of 2: a pattern for each part of the policy's key", '"a"'],
    [{ keys: [["ann", "*"]] }, "exempt.keys[0][0]", /^an address, /, '"ann"'],
    [{ users: [] }, "exempt.users", "no such field; known here: cidrs, keys", "a list of 0"],
  ])("reports what is wrong with %j", (exempt, path, expected, got) => {
    expect(validatePolicy({ ...document, exempt }).problems).toEqual([
      { path, expected: typeof expected === "string" ? expected : expect.stringMatching(expected), got },
    ]);
  });
});

describe("a schedule", () => {
  const window = { days: ["mon", "sun"], from: "22:00", to: "06:00" };
  const problemsOf = (schedule: unknown) => validatePolicy({ ...smallestDocument, schedule }).problems;

  test("applies every day by default", () => {
    const { schedule } = policyFrom({
      ...smallestDocument,
      schedule: { timezone: "Asia/Shanghai", windows: [window, { from: "00:00", to: "24:00" }] },
    });
    expect(schedule).toEqual({
      timezone: "Asia/Shanghai",
      windows: [window, { days: ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], from: "00:00", to: "24:00" }],
    });
  });

  test.each([
    [{ windows: [window] }, "schedule.timezone", 'a time zone, like "Europe/Berlin"', "nothing"],
    [{ timezone: "a b", windows: [window] }, "schedule.timezone", 'a time zone, like "Europe/Berlin"', '"a b"'],
    [{ timezone: "UTC" }, "schedule.windows", "a list of 1 to 100", "nothing"],
    [{ timezone: "UTC", windows: [] }, "schedule.windows", "a list of 1 to 100", "a list of 0"],
    [
      { timezone: "UTC", windows: [{ ...window, days: ["monday"] }] },
      "schedule.windows[0].days[0]",
      "one of mon, tue, wed, thu, fri, sat, sun",
      '"monday"',
    ],
    [
      { timezone: "UTC", windows: [{ ...window, from: "24:00" }] },
      "schedule.windows[0].from",
      'a time from "00:00" to "23:59"',
      '"24:00"',
    ],
    [
      { timezone: "UTC", windows: [{ ...window, to: "6:00" }] },
      "schedule.windows[0].to",
      'a time from "00:00" to "24:00", another than from',
      '"6:00"',
    ],
    [
      { timezone: "UTC", windows: [{ ...window, to: "22:00" }] },
      "schedule.windows[0].to",
      'another time than from; "00:00" to "24:00" is the whole day',
      '"22:00"',
    ],
  ])("reports what is wrong with %j", (schedule, path, expected, got) => {
    expect(problemsOf(schedule)).toEqual([{ path, expected, got }]);
  });
});

describe("a text with half of a surrogate pair", () => {
  // One in a stored policy would keep every gateway from reading any snapshot with it, since UTF-8 cannot express it.
  const halves = ["\ud800", "\udc00", "\udc00\ud800", "a\ud83d", "\ud83d\ud83d\ude00", "\ud83d\ude00\ude00"];

  test.each(halves.map((half) => ({ half })))("is refused in every field of free text: $half", ({ half }) => {
    const document = {
      ...smallestDocument,
      description: half,
      key: [`const:${half}`, `query:${half}`, `cookie:${half}`],
      match: { paths: [`/${half}`] },
    };
    const { problems } = validatePolicy(document);
    expect(problems.map(({ path }) => path).sort()).toEqual([
      "description",
      "key[0]",
      "key[1]",
      "key[2]",
      "match.paths[0]",
    ]);
    for (const { expected, got } of problems) {
      expect(expected).toMatch(/, in well-formed Unicode$/);
      expect(got.isWellFormed()).toBe(true);
    }
  });

  test("is reported as such", () => {
    expect(validatePolicy({ ...smallestDocument, description: "a\ud800b" }).problems).toEqual([
      { path: "description", expected: "text of at most 2000 bytes, in well-formed Unicode", got: '"a?b"' },
    ]);
  });

  test("is distinguished from a whole pair at both ends of the range", () => {
    for (const pair of ["\ud800\udc00", "\udbff\udfff"]) {
      expect(pathsOf({ ...smallestDocument, description: pair })).toEqual([]);
      expect(validatePolicy({ ...smallestDocument, mode: pair }).problems).toMatchObject([{ got: `"${pair}"` }]);
    }
    for (const half of ["\ud800\udbff", "\udc00\udfff", "\ud800\ue000", "\udfff"]) {
      expect(pathsOf({ ...smallestDocument, description: half })).toEqual(["description"]);
    }
    expect(pathsOf({ ...smallestDocument, description: "\ud7ff\ue000\uffff" })).toEqual([]);
    expect(validatePolicy({ ...smallestDocument, mode: "\u0080\u009f\u00a0\u007f" }).problems).toMatchObject([
      { got: '"??\u00a0?"' },
    ]);
  });

  test("does not cause a whole pair to be refused", () => {
    expect(pathsOf({ ...smallestDocument, description: "😀", key: ["const:😀"], match: { paths: ["/😀"] } })).toEqual(
      [],
    );
  });
});

describe("a document with very many problems", () => {
  test("gets the first hundred, and the number of the others", () => {
    const document: Record<string, unknown> = { ...smallestDocument };
    for (let i = 0; i < 90_001; i++) document[`f${i}`] = i;
    const { problems } = validatePolicy(document);
    expect(problems).toHaveLength(101);
    expect(problems[99]?.expected).toMatch(/^no such field/);
    expect(problems[100]).toEqual({ path: "", expected: "no more than these 100 problems", got: "89901 more" });
  });

  test("of exactly a hundred gets each of them and nothing more", () => {
    const { problems } = validatePolicy({ ...smallestDocument, match: { hosts: Array(100).fill("A") } });
    expect(problems).toHaveLength(100);
    expect(problems.every(({ path }) => path.startsWith("match.hosts["))).toBe(true);
  });

  test("has the names of its unknown fields cut and on one line", () => {
    expect(pathsOf({ ...smallestDocument, ["a\nb\u0000\u009b\ud800".padEnd(5_000, "c")]: 1 })).toEqual([
      `a?b???${"c".repeat(72)}…`,
    ]);
  });
});

const anything = fc.anything({ withNullPrototype: true, withSparseArray: true, withBigInt: true });

describe("whatever it is given, it", () => {
  const keys = [
    "name",
    "description",
    "mode",
    "priority",
    "match",
    "key",
    "onMissingKey",
    "limits",
    "cost",
    "scope",
    "consistency",
    "onStoreFailure",
    "onLimit",
    "constructor",
    "__proto__",
    "toString",
    "x",
  ];

  test("never throws, and returns a policy or problems, never both", () => {
    const document = fc.oneof(anything, fc.dictionary(fc.constantFrom(...keys), anything));
    fc.assert(
      fc.property(document, (value) => {
        const { policy, problems } = validatePolicy(value);
        expect(policy === undefined).toBe(problems.length > 0);
      }),
      { numRuns: 3_000 },
    );
  });

  test("reports for every problem its place, what was expected and what came, each on one line", () => {
    const damaged = fc.tuple(fc.constantFrom(...keys), anything).map(([key, value]) => ({
      ...smallestDocument,
      [key]: value,
    }));
    fc.assert(
      fc.property(damaged, (document) => {
        for (const { path, expected, got } of validatePolicy(document).problems) {
          expect(path).not.toBe("");
          expect(expected).not.toBe("");
          expect(got).toMatch(/^[^\n\r]{1,83}$/);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("refuses an integer exactly when it is outside its range", () => {
    const field = fc.constantFrom(["quota", 1, 2 ** 31], ["burst", 1, 2 ** 31]) as fc.Arbitrary<
      [string, number, number]
    >;
    const number = fc.oneof(
      fc.integer(),
      fc.double(),
      fc.constantFrom(0, 1, 2 ** 31, 2 ** 31 + 1, 1.5, 2 ** 31 - 0.5, -1),
    );
    fc.assert(
      fc.property(field, number, ([name, min, max], value) => {
        const { problems } = validatePolicy({ name: "x", limits: [{ ...smallestLimit, [name]: value }] });
        expect(problems.length === 0).toBe(Number.isInteger(value) && value >= min && value <= max);
      }),
      { numRuns: 2_000 },
    );
  });
});
