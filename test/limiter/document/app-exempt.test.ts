// Whom a whole app exempts, as `PUT /apps/{app}` takes it: which parts and patterns are refused.

import { describe, expect, test } from "vitest";
import { appExemptShape, exemptPartText } from "../../../limiter/src/document/app-exempt.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import { checkShape } from "../../../limiter/src/document/validate.ts";

function refused(exempt: object): string[] {
  const findings = noFindings();
  checkShape(appExemptShape, exempt, "exempt", findings);
  return findings.problems.map(({ path, got }) => `${path}: ${got}`);
}

describe("the exemptions of an app", () => {
  test("are networks, lists, and values of parts of keys", () => {
    expect(refused({})).toEqual([]);
    expect(refused({ cidrs: ["10.0.0.0/8", "@office"], keys: [] })).toEqual([]);
    const keys = [
      { part: "header:X-User", pattern: "ann" },
      { part: "jwt:sub", pattern: "health-*" },
      { part: "host", pattern: "*" },
      { part: "const:free", pattern: "free" },
    ];
    expect(refused({ keys })).toEqual([]);
  });

  test.each(["ip", "ip/24/56", "user", "header:", "header:x y", ""])(
    "have no values of %j, which is no part of keys or says addresses",
    (part) => {
      expect(refused({ keys: [{ part, pattern: "*" }] })).toEqual([`exempt.keys[0].part: ${JSON.stringify(part)}`]);
    },
  );

  test.each(["", "a*b", "**", "*a"])("have no pattern %j, which stands for no value", (pattern) => {
    expect(refused({ keys: [{ part: "host", pattern }] })).toEqual([
      `exempt.keys[0].pattern: ${JSON.stringify(pattern)}`,
    ]);
  });

  test("have both a part and a pattern", () => {
    expect(refused({ keys: [{ part: "host" }] })).toEqual(["exempt.keys[0].pattern: nothing"]);
    expect(refused({ keys: [{ pattern: "*" }] })).toEqual(["exempt.keys[0].part: nothing"]);
  });
});

test("parts that read alike are the same part", () => {
  expect(["header:X-User", "header:x-user", "jwt:Sub", "host"].map((part) => exemptPartText(part))).toEqual([
    "header:x-user",
    "header:x-user",
    "jwt:Sub",
    "host",
  ]);
});
