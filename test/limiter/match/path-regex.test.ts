import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { validatePolicy } from "../../../limiter/src/document/validate.ts";
import { matchesRegex, pathRegex } from "../../../limiter/src/match/path-regex.ts";
import { mostInstructions, readRegex } from "../../../limiter/src/match/regex-syntax.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
import { smallestDocument } from "../policies.ts";
import { inJavaScript, matchesInJavaScript, regex, subject } from "./regexes.ts";

// What single expressions match is in ../vectors/path-regexes.json, and how others are refused is in
// ../vectors/policy-documents.json; both are tested in Node and LuaJIT.

const matches = (expression: string, path: string) => matchesRegex(pathRegex(expression), path);

test("a regular expression matches what it matches in JavaScript", () => {
  let pairs = 0;
  let matched = 0;
  fc.assert(
    fc.property(regex, fc.array(subject, { minLength: 12, maxLength: 12 }), (expression, paths) => {
      expect(readRegex(expression).refusal).toBeUndefined();
      const ours = pathRegex(expression);
      const theirs = matchesInJavaScript(expression, paths);
      if (theirs === undefined) return;
      for (const [i, path] of paths.entries()) {
        const found = matchesRegex(ours, path);
        if (found !== theirs[i]) expect([expression, path, found]).toEqual([expression, path, !found]);
        pairs += 1;
        if (found) matched += 1;
      }
    }),
    { numRuns: 5_000 },
  );
  expect(pairs).toBeGreaterThanOrEqual(50_000);
  // Neither nearly all nor nearly no paths match.
  expect(matched).toBeGreaterThan(pairs / 10);
  expect(matched).toBeLessThan((pairs * 9) / 10);
});

test("an expression that JavaScript cannot decide in time is left out of the comparison", () => {
  expect(matchesInJavaScript("^(?:(?:(?:a|a|a|a)*)*)*b$", ["aaaaaaaaaaaa"])).toBeUndefined();
  expect(matchesInJavaScript("^a+$", ["aaa", "ab"])).toEqual([true, false]);
});

test("a regular expression answers the same whatever paths it had before", () => {
  // It has more states than are kept, so it answers both with kept states and without.
  const expression = "^(a|b)*a(a|b){12}$";
  const asked = pathRegex(expression);
  fc.assert(
    fc.property(fc.array(fc.constantFrom("a", "b"), { maxLength: 200 }), (letters) => {
      const path = letters.join("");
      expect(matchesRegex(asked, path)).toBe(inJavaScript(expression).test(path));
    }),
    { numRuns: 500 },
  );
});

test("any text is read as a regular expression or refused at one of its characters, and what is read can be matched", () => {
  const text = fc.oneof(
    fc.string({ unit: fc.constantFrom(..."ab01(){}[]|*+?.^$\\-,:=!<P#dwsbx/é😀") }),
    fc.string({ unit: "binary" }),
  );
  fc.assert(
    fc.property(text, subject, (expression, path) => {
      const { node, refusal } = readRegex(expression);
      if (refusal === undefined) {
        if (node === undefined) expect(node).toBeDefined();
        if (typeof matches(expression, path) !== "boolean") expect.fail("matched neither yes nor no");
        return;
      }
      if (node !== undefined) expect(node).toBeUndefined();
      const { position } = refusal;
      if (!(position >= 1 && position <= [...expression].length)) expect.fail(`refused at ${position}`);
    }),
    { numRuns: 20_000 },
  );
});

describe("regex denial of service in a path pattern:", () => {
  const longest = 8_192;
  /** @returns the shortest of several runs, so that other work of the machine counts little */
  const leastMs = (ask: () => unknown, times = 5) =>
    Math.min(
      ...Array.from({ length: times }, () => {
        const startMs = processorMs();
        ask();
        return processorMs() - startMs;
      }),
    );

  // Each of these would keep a backtracking engine busy for longer than the universe has existed.
  const catastrophic = [
    "(a+)+$",
    "^(a+)+$",
    "(a*)*$",
    "^(a|aa)+$",
    "(a|a)*$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(.*a){20}$",
    "^(.*)*$x",
    "(a?){30}a{30}$",
  ];

  test.each(catastrophic)("%s is matched against 8 KB within some milliseconds", (expression) => {
    const asked = pathRegex(expression);
    const path = `/${"a".repeat(longest)}!`;
    matchesRegex(asked, path);
    expect(leastMs(() => matchesRegex(asked, path))).toBeLessThan(10);
  });

  test("the time grows in proportion to the path", () => {
    const asked = pathRegex("(a|b)*a(a|b){60}c$");
    const letters = Array.from({ length: longest }, (_, i) => ((i * i * 7 + i) % 11 < 5 ? "a" : "b")).join("");
    const quarter = leastMs(() => matchesRegex(asked, letters.slice(0, longest / 4)));
    const whole = leastMs(() => matchesRegex(asked, letters));
    expect(whole).toBeLessThan(quarter * 16 + 5);
  });

  test("the longest expression on the longest path ends too", () => {
    const asked = pathRegex("(a?){330}a{330}$");
    const path = `/${"a".repeat(longest)}!`;
    expect(leastMs(() => matchesRegex(asked, path), 1)).toBeLessThan(5_000);
  });

  test("an expression that would grow beyond bounds is refused before it does", () => {
    for (const expression of ["a{1000}{1000}", "((a{1000}){1000}){1000}", "((((){1000}){1000}){1000}){1000}"]) {
      const startMs = processorMs();
      expect(validatePolicy({ ...smallestDocument, match: { paths: [`~${expression}`] } }).policy).toBeUndefined();
      expect(processorMs() - startMs).toBeLessThan(100);
    }
  });

  test("many expressions of one policy cannot exceed the bound together", () => {
    const paths = Array.from({ length: 256 }, (_, i) => `~(a|b)*a(a|b){${i}}$`);
    expect(validatePolicy({ ...smallestDocument, match: { paths } }).problems).toMatchObject([
      { path: "match.paths", expected: expect.stringContaining(`at most ${mostInstructions} steps together`) },
    ]);
  });
});
