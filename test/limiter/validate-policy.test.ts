import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { validatePolicy } from "../../limiter/src/policy/validate.ts";
import { smallestDocument, smallestLimit } from "./policies.ts";

// What single documents are told is in ../vectors/policy-documents.json, and held against Node and LuaJIT in ../parity
// and ../gateway. Here: what holds for all of them.

const pathsOf = (document: unknown) => validatePolicy(document).problems.map(({ path }) => path);

describe("a policy document", () => {
  test("of a name and one limit has every default", () => {
    expect(validatePolicy(smallestDocument)).toEqual({
      problems: [],
      policy: {
        name: "books",
        description: "",
        mode: "enforce",
        priority: 0,
        match: { hosts: [], paths: [], methods: [] },
        key: [],
        onMissingKey: "skip",
        limits: [{ name: "default", algorithm: "token-bucket", quota: 10, windowUs: 1_000_000, burst: 10 }],
        cost: 1,
        scope: "node",
        onStoreFailure: "local",
        onLimit: { action: "reject", status: 429 },
      },
    });
  });

  test("is told everything that is wrong with it at once", () => {
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

  test("has numbers that are numbers: no NaN, no infinity", () => {
    for (const quota of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e300]) {
      expect(pathsOf({ ...smallestDocument, limits: [{ ...smallestLimit, quota }] })).toEqual(["limits[0].quota"]);
      expect(pathsOf({ ...smallestDocument, priority: quota })).toEqual(["priority"]);
    }
    expect(pathsOf({ ...smallestDocument, cost: Number.NaN })).toEqual(["cost"]);
  });

  test("takes a field that is undefined for one that is absent", () => {
    expect(
      validatePolicy({ ...smallestDocument, mode: undefined, colour: undefined }).problems.map(({ path }) => path),
    ).toEqual(["colour"]);
  });

  test("that is no object at all is told so", () => {
    for (const document of [undefined, null, "x", 5, true, [], [smallestDocument], () => 1, Symbol("x"), 5n]) {
      expect(validatePolicy(document)).toMatchObject({ problems: [{ path: "", expected: "an object" }] });
    }
  });

  test("is refused without a word being said of values that are right", () => {
    expect(validatePolicy({ ...smallestDocument, limits: [{ ...smallestLimit, quota: 0 }], cost: 5 }).problems).toEqual(
      [{ path: "limits[0].quota", expected: "an integer from 1 to 2147483648", got: "0" }],
    );
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
    "onStoreFailure",
    "onLimit",
    "constructor",
    "__proto__",
    "toString",
    "x",
  ];

  test("never throws, and gives a policy or problems, never both", () => {
    const document = fc.oneof(anything, fc.dictionary(fc.constantFrom(...keys), anything));
    fc.assert(
      fc.property(document, (value) => {
        const { policy, problems } = validatePolicy(value);
        expect(policy === undefined).toBe(problems.length > 0);
      }),
      { numRuns: 3_000 },
    );
  });

  test("says of every problem where it is, what was expected and what came, each in one line", () => {
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
