import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { lifetimeWindowUs } from "../../../limiter/src/algorithms/fixed-window.ts";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import {
  counterPrefix,
  counterSuffix,
  encodeKeyValue,
  encodeKeyValues,
} from "../../../limiter/src/compiled/counter-key.ts";
import { policyFrom } from "../policies.ts";

const sha1Hex = (text: string) => createHash("sha1").update(text).digest("hex");
const encode = (values: readonly string[]) => encodeKeyValues(values, values.length, sha1Hex);

interface Place {
  readonly app: string;
  readonly policy: string;
  readonly limit: string;
  readonly algorithm: Algorithm;
  readonly windowUs: number;
  readonly precisionUs: number;
  readonly values: readonly string[];
}

function storedKey({ app, policy, limit, algorithm, windowUs, precisionUs, values }: Place): string {
  const suffix = counterSuffix({ name: limit, algorithm, windowUs, quota: 1, burst: 1, precisionUs });
  return counterPrefix(app, policy) + encode(values) + suffix;
}

describe("a stored key", () => {
  test("has the word lifetime for a window without end", () => {
    const limit = { name: "trial", algorithm: "fixed-window", quota: 1, burst: 1, precisionUs: 0 } as const;
    expect(counterSuffix({ ...limit, windowUs: lifetimeWindowUs })).toBe("}:trial:fixed-window:lifetime");
    expect(counterSuffix({ ...limit, windowUs: 31_622_400_000_000 })).toBe("}:trial:fixed-window:31622400000000");
  });

  test("contains the format version, app, policy, values, limit, algorithm and window", () => {
    const place = {
      app: "shop",
      policy: "books",
      limit: "burst",
      algorithm: "token-bucket" as const,
      windowUs: 1_000_000,
      precisionUs: 0,
    };
    expect(storedKey({ ...place, values: ["abc", "def"] })).toBe(
      "s3:{shop:books:2:3:abcdef}:burst:token-bucket:1000000",
    );
    expect(storedKey({ ...place, values: [] })).toBe("s3:{shop:books:0:}:burst:token-bucket:1000000");
  });

  test("contains the precision of a sliding-window: blocks of another length are another counter", () => {
    const limits = ["100ms", "200ms", undefined].map(
      (precision) =>
        policyFrom({ name: "x", limits: [{ algorithm: "sliding-window", quota: 1, window: "1s", precision }] })
          .limits[0],
    );
    expect(limits.map((limit) => counterSuffix(limit as never))).toEqual([
      "}:default:sliding-window:1000000/100000",
      "}:default:sliding-window:1000000/200000",
      "}:default:sliding-window:1000000/100000",
    ]);
  });

  test("contains the time to live of concurrency where others have their window", () => {
    const [limit] = policyFrom({ name: "x", limits: [{ algorithm: "concurrency", quota: 1, ttl: "5s" }] }).limits;
    expect(counterSuffix(limit as never)).toBe("}:default:concurrency:5000000");
  });

  test("contains the longest window to the last digit", () => {
    const [limit] = policyFrom({
      name: "x",
      limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
    }).limits;
    expect(counterSuffix(limit as never)).toBe("}:default:fixed-window:31622400000000");
  });

  test("depends on nothing else of the limit", () => {
    const suffixes = [
      { quota: 1, burst: 1 },
      { quota: 2, burst: 3 },
    ].map((units) =>
      counterSuffix({ name: "x", algorithm: "sliding-window", windowUs: 1_000, precisionUs: 100, ...units }),
    );
    expect(suffixes[0]).toBe(suffixes[1]);
  });

  test("contains the hash of values of more than 200 bytes together, and up to 200 bytes the values", () => {
    expect(encode(["a".repeat(198)])).toBe(`1:${"a".repeat(198)}`);
    expect(encode(["a".repeat(199)])).toBe(`h:${sha1Hex(`1:${"a".repeat(199)}`)}`);
    expect(encode(["a".repeat(100), "b".repeat(1_000_000)])).toMatch(/^h:[0-9a-f]{40}$/);
  });

  test("counts bytes, as Lua does, and not the characters of a text", () => {
    expect(encode(["é€😀", "x"])).toBe("2:9:é€😀x");
    expect(encode(["é".repeat(99)])).toBe(`1:${"é".repeat(99)}`);
    expect(encode(["é".repeat(100)])).toMatch(/^h:/);
  });

  test("leaves no client the choice of the hash tag, which ends at the first brace", () => {
    expect(encodeKeyValue("}k", sha1Hex)).toBe(`h:${sha1Hex("1:}k")}`);
    expect(encodeKeyValues(["a", "b}c"], 2, sha1Hex)).toBe(`h:${sha1Hex("2:1:ab}c")}`);
    expect(encodeKeyValue("{k", sha1Hex)).toBe("1:{k");
  });

  test("uses only the first `count` of the work space", () => {
    expect(encodeKeyValues(["a", "left over"], 1, sha1Hex)).toBe("1:a");
    expect(encodeKeyValues(["left over"], 0, sha1Hex)).toBe("0:");
  });
});

/** Values made of what could be mistaken for a key's own punctuation, and long ones. */
const value = fc.oneof(
  fc
    .array(fc.constantFrom(":", "{", "}", "h:", "s3:", "1", "2", "12", "0", "a", "|", "/", ",", " ", "\0", "\n", "é"), {
      maxLength: 6,
    })
    .map((pieces) => pieces.join("")),
  fc.constantFrom("", "}:a:token-bucket:1000", "}:a:sliding-window:1000/100", "1:a", "2:1:ab", "h:", sha1Hex("1:a")),
  fc.integer({ min: 190, max: 210 }).map((length) => "a".repeat(length)),
  fc.string(),
);

const name = fc.constantFrom("a", "b", "a-b", "0", "1", "2", "h");

const place: fc.Arbitrary<Place> = fc
  .record({
    app: name,
    policy: name,
    limit: name,
    algorithm: fc.constantFrom("token-bucket" as const, "sliding-window" as const, "sliding-log" as const),
    windowUs: fc.constantFrom(1_000, 10_000, 31_622_400_000_000),
    precisionUs: fc.constantFrom(100, 1_000),
    values: fc.array(value, { maxLength: 4 }),
  })
  .map(withPrecisionOfItsOwn);

/** Removes the precision, which only a sliding-window has. */
function withPrecisionOfItsOwn(place: Place): Place {
  return place.algorithm === "sliding-window" ? place : { ...place, precisionUs: 0 };
}

/** Two lists of values: the same characters, cut differently. */
const recut = fc
  .tuple(fc.array(value, { minLength: 1, maxLength: 3 }), fc.array(fc.nat(20), { maxLength: 3 }))
  .map(([values, cuts]) => {
    const joined = values.join("");
    const at = [0, ...cuts.map((cut) => Math.min(cut, joined.length)).sort((a, b) => a - b), joined.length];
    const other = at.slice(1).map((end, i) => joined.slice(at[i], end));
    return [values, other] as const;
  });

describe("two counters have the same stored key only if they are the same:", () => {
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

  test("any app, policy, limit, algorithm, window, precision and values", () => {
    fc.assert(
      fc.property(place, place, (a, b) => {
        expect(storedKey(a) === storedKey(b)).toBe(same(a, b));
      }),
      { numRuns: 20_000 },
    );
  });

  test("any change to one of them", () => {
    fc.assert(
      fc.property(
        place,
        place,
        fc.constantFrom("app", "policy", "limit", "algorithm", "windowUs", "precisionUs", "values"),
        (a, b, field) => {
          const changed = withPrecisionOfItsOwn({ ...a, [field]: b[field as keyof Place] });
          expect(storedKey(a) === storedKey(changed)).toBe(same(a, changed));
        },
      ),
      { numRuns: 5_000 },
    );
  });

  test("the same characters cut into other values", () => {
    fc.assert(
      fc.property(recut, ([values, other]) => {
        expect(encode(values) === encode(other)).toBe(same(values, other));
      }),
      { numRuns: 20_000 },
    );
  });

  test("a hash given as a value is not the value that it is the hash of", () => {
    const long = "a".repeat(300);
    expect(encode([encode([long])])).not.toBe(encode([long]));
    expect(encode([encode([long]).slice(2)])).not.toBe(encode([long]));
  });
});

describe("a client that chooses a value cannot", () => {
  const books = { app: "shop", policy: "books", limit: "a", algorithm: "token-bucket" as const, precisionUs: 0 };
  const keyOf = (...values: string[]) => storedKey({ ...books, windowUs: 1_000, values });

  test("write another limit's counter by ending the values itself", () => {
    expect(keyOf("x}:a:token-bucket:1000")).not.toBe(keyOf("x"));
    expect(keyOf("x}:b:token-bucket:1000", "")).not.toBe(
      storedKey({ ...books, limit: "b", windowUs: 1_000, values: ["x"] }),
    );
    expect(keyOf("}:a:token-bucket:1000{shop:books:1:x")).not.toBe(keyOf("x"));
  });

  test("write another policy's or app's counter", () => {
    const films = storedKey({ ...books, policy: "films", windowUs: 1_000, values: ["x"] });
    for (const value of ["}s3:{shop:films:1:x", "films:1:x", ":films:1:x", "}:a:token-bucket:1000s3:{shop:films:1:x"]) {
      expect(keyOf(value)).not.toBe(films);
    }
  });

  test("move bytes from one part of the key into the next", () => {
    const keys = [["ab", "c"], ["a", "bc"], ["", "abc"], ["abc", ""], ["abc"], ["1:a", "bc"], ["a2:", "bc"]];
    expect(new Set(keys.map((values) => keyOf(...values))).size).toBe(keys.length);
  });

  test("pass for the value that a hash stands for", () => {
    const hash = sha1Hex(`1:${"a".repeat(8192)}`);
    for (const value of [hash, `h:${hash}`, `1:${hash}`]) expect(keyOf(value)).not.toBe(keyOf("a".repeat(8192)));
  });

  test("fill the memory: eight values of 8 KB make a key as short as any long one's", () => {
    const values = Array.from({ length: 8 }, (_, i) => `${i}`.repeat(8192));
    expect(encode(values)).toHaveLength(42);
    expect(encode(values)).not.toBe(encode(values.toReversed()));
    expect(encode([...values.slice(0, 7), `${values[7]}x`])).not.toBe(encode(values));
  });

  test("distribute the limits of a policy to different slots of Redis Cluster by a brace in a value", () => {
    const tagOf = (key: string) => /\{(.*?)\}/.exec(key)?.[1];
    for (const value of ["}", "{}", "}{x}", "{x", "x}y{z}"]) {
      const tags = ["a", "b"].map((limit) => tagOf(storedKey({ ...books, limit, windowUs: 1_000, values: [value] })));
      expect(tags[0]).toBe(tags[1]);
      expect(tags[0]).not.toBe("");
    }
  });
});

test("a stored key is never longer than 200 bytes and its names", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 400, unit: "grapheme" }), { maxLength: 8 }), (values) => {
      expect(Buffer.byteLength(encode(values))).toBeLessThanOrEqual(200);
    }),
  );
});
