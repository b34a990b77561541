import { describe, expect, it } from "vitest";
import { expressionSteps } from "../../../limiter/src/match/expression-steps.ts";
import { matchesRegex, pathRegex } from "../../../limiter/src/match/path-regex.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";

describe("the cost of a regular expression per character of a path", () => {
  it.each([
    "^/v[0-9]+/books$",
    "/books$",
    "^/(en|de|fr)/shop/.*\\.html$",
    "^/users/[0-9a-f]{8}-[0-9a-f]{4}$",
    "foo.*bar",
    "^/([a-z]+/)*x$",
    "",
  ])("is one step for %s, whose states are all kept", (text) => {
    expect(expressionSteps([text])).toBe(1);
  });

  it.each([
    ["^/[ab]*a[ab]{20}$", 27],
    ["^/(a|b)*a(a|b){100}$", 309],
  ])("is that of all its instructions if %s has more states than are kept", (text, instructions) => {
    const regex = pathRegex(text);
    matchesRegex(regex, "/");
    expect(regex.matcher?.program.kinds.length).toBe(instructions);
    expect(expressionSteps([text])).toBe(10 + 7 * instructions);
  });

  it("is a sum, and counts all instructions if there is too much to search", () => {
    const ordinary = Array.from({ length: 20 }, (_, i) => `^/api${i}/v[12]/(users|orders)/[0-9]+(/.*)?$`);
    expect(expressionSteps(ordinary)).toBe(20);
    const wide = Array.from({ length: 16 }, (_, i) => `^/${i}(${"[a-z0-9]?x?".repeat(20)})*$`);
    expect(expressionSteps(wide)).toBeGreaterThanOrEqual(16);
  });

  it("is found within some milliseconds, whatever the expression", () => {
    const worst = ["^/[ab]*a[ab]{480}$", "^/(a|b)*a(a|b){300}$", "(.{30}a?){30}"];
    const longestMs = Math.max(
      ...worst.map((text) => {
        const from = processorMs();
        expressionSteps([text]);
        return processorMs() - from;
      }),
    );
    console.log(`longest look at an expression: ${longestMs.toFixed(1)} ms`);
    expect(longestMs).toBeLessThan(500);
  });
});
