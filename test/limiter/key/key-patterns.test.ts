import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type KeyPart, parseKeyPart } from "../../../limiter/src/key/key-part.ts";
import { firstMatch, indexKeyPatterns, isKeyPattern, patternValue } from "../../../limiter/src/key/key-patterns.ts";

const partsOf = (...texts: string[]) => texts.map((text) => parseKeyPart(text) as KeyPart);
const matcher = (key: KeyPart[], ...lists: string[][]) => {
  const patterns = indexKeyPatterns(key, lists);
  return (...values: string[]) => firstMatch(patterns, values);
};

describe("among several lists of patterns,", () => {
  const two = partsOf("header:a", "header:b");

  test("the first that matches is used, whatever the kinds of patterns", () => {
    const match = matcher(two, ["x", "y"], ["*", "vip-42"], ["x", "*"], ["vip-*", "vip-42"], ["*", "vip-*"]);
    expect(match("x", "y")).toBe(0);
    expect(match("x", "vip-42")).toBe(1);
    expect(match("x", "z")).toBe(2);
    expect(match("vip-1", "vip-42")).toBe(1);
    expect(match("q", "vip-")).toBe(4);
    expect(match("q", "vip")).toBeUndefined();
    expect(matcher(two, ["*", "*"], ["x", "y"])("x", "y")).toBe(0);
    expect(matcher(two, ["x", "y"], ["x", "y"])("x", "y")).toBe(0);
  });

  test("the first matches an empty key", () => {
    expect(matcher([], [], [])()).toBe(0);
    expect(matcher([])()).toBeUndefined();
  });

  test("none matches the same characters cut into other values", () => {
    const match = matcher(two, ["ab", "c"], ["1:a", "b"]);
    for (const values of [
      ["a", "bc"],
      ["abc", ""],
      ["", "abc"],
      ["2:ab", "c"],
      ["1", ":ab"],
    ]) {
      expect(match(...values)).toBeUndefined();
    }
  });

  test("none matches a name that a table could inherit", () => {
    for (const value of ["constructor", "__proto__", "toString"]) {
      expect(matcher(partsOf("header:a"), ["x"])(value)).toBeUndefined();
      expect(matcher(partsOf("header:a"), ["x"], [value])(value)).toBe(1);
    }
  });

  test("an empty pattern matches an absent value", () => {
    expect(matcher(partsOf("header:a"), ["x"], [""])("")).toBe(1);
  });

  test("the same one is used as by trying one after the other", () => {
    const value = fc.string({ unit: fc.constantFrom("a", "b", ":", "1", "é", "😀"), maxLength: 3 });
    const pattern = fc.oneof(
      value,
      value.map((text) => `${text}*`),
      fc.constant("*"),
    );
    const key = partsOf("header:a", "query:b", "const:c");
    fc.assert(
      fc.property(
        fc.array(fc.tuple(pattern, pattern, pattern), { maxLength: 12 }),
        fc.tuple(value, value, value),
        (lists, values) => {
          const matches = (one: string, i: number) =>
            one.endsWith("*") ? values[i]?.startsWith(one.slice(0, -1)) : values[i] === one;
          const expected = lists.findIndex((list) => list.every(matches));
          expect(matcher(key, ...lists)(...values)).toBe(expected < 0 ? undefined : expected);
        },
      ),
      { numRuns: 5_000 },
    );
  });
});

describe("a pattern for an address", () => {
  const counted = (part: string, text: string) => patternValue(partsOf(part)[0] as KeyPart, text);

  test("is the network by which the address is counted", () => {
    expect(counted("ip", "192.0.2.7")).toBe("192.0.2.7");
    expect(counted("ip", "::ffff:192.0.2.7")).toBe("192.0.2.7");
    expect(counted("ip", "2001:DB8::7")).toBe("2001:db8:0:0:0:0:0:0/64");
    expect(counted("ip/24/56", "192.0.2.7")).toBe("192.0.2.0/24");
    expect(counted("header:a", "2001:DB8::7")).toBe("2001:DB8::7");
  });

  test("may be that network, in any spelling", () => {
    expect(counted("ip", "192.0.2.7/32")).toBe("192.0.2.7");
    expect(counted("ip", "2001:db8::/64")).toBe("2001:db8:0:0:0:0:0:0/64");
    expect(counted("ip/24/56", "192.0.2.0/24")).toBe("192.0.2.0/24");
    expect(counted("ip", "2001:db8:0:0:0:0:0:0/64")).toBe("2001:db8:0:0:0:0:0:0/64");
  });

  test("is invalid for what is never counted: a network of another length, or no address", () => {
    for (const text of [
      "192.0.2.0/24",
      "2001:db8::/56",
      "192.0.2.7/",
      "192.0.2",
      "localhost",
      "",
      "/32",
      "1.2.3.4/32/3",
    ]) {
      expect([text, counted("ip", text)]).toEqual([text, undefined]);
    }
    expect(counted("ip/24/56", "192.0.2.0/25")).toBeUndefined();
  });
});

test("a pattern has a star only at its end", () => {
  expect(["", "a", "*", "a*"].map(isKeyPattern)).toEqual([true, true, true, true]);
  expect(["**", "a**", "*a", "a*b", "a*b*"].map(isKeyPattern)).toEqual([false, false, false, false, false]);
});
