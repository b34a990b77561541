import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CostSource, costFrom } from "../../../limiter/src/document/cost.ts";

const header: CostSource = { from: "header", name: "x-cost", default: 5, max: 100, room: 100 };
const bytes: CostSource = { from: "request-bytes", name: "", default: 5, max: 100, room: 100 };

describe("the cost that a request states", () => {
  test("is an integer from 1 to the maximum", () => {
    for (const [text, cost] of [
      ["1", 1],
      ["9", 9],
      ["99", 99],
      ["100", 100],
    ] as const)
      expect(costFrom(text, header)).toBe(cost);
    expect(costFrom("2147483648", { ...header, max: 2147483648 })).toBe(2147483648);
  });

  test("is the default if it states none", () => {
    expect(costFrom(undefined, header)).toBe(5);
    expect(costFrom(undefined, bytes)).toBe(5);
  });

  test.each([
    "",
    "0",
    "-1",
    "+1",
    "1.5",
    "1.0",
    "NaN",
    "Infinity",
    "1e1",
    "1e9",
    "0x10",
    " 1",
    "1 ",
    "1\t",
    "1, 1",
    "01",
    "007",
    "101",
    "9999999999",
    "18446744073709551617",
    "9".repeat(400),
    "١",
    "１",
    "1_0",
    "one",
    "/",
    ":",
  ])("is invalid in %j", (text) => expect(costFrom(text, header)).toBeUndefined());

  test("is the number of bytes of a body, and 1 for an empty one", () => {
    expect(["0", "1", "100", "101", "-0", "00", ""].map((text) => costFrom(text, bytes))).toEqual([
      1,
      1,
      100,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  test("is never outside 1 to the maximum, whatever the text", () => {
    const text = fc.oneof(fc.string(), fc.integer().map(String), fc.double().map(String), fc.bigInt().map(String));
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 2 ** 31 }), (said, max) => {
        const cost = costFrom(said, { ...header, max });
        const right = /^[1-9][0-9]*$/.test(said) && Number(said) <= max;
        expect(cost).toBe(right ? Number(said) : undefined);
      }),
      { numRuns: 2_000 },
    );
  });
});
