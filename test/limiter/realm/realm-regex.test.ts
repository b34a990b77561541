// Compares regular expressions with a realm's paths: an accepted expression matches nothing outside, and a refused one is
// refused with a path that it matches outside.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { matchesRegex, pathRegex } from "../../../limiter/src/match/path-regex.ts";
import { readRegex } from "../../../limiter/src/match/regex-syntax.ts";
import { matchProblems } from "../../../limiter/src/realm/match-within.ts";
import { pathOutside, unproven } from "../../../limiter/src/realm/regex-within.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
import { regex } from "../match/regexes.ts";

const isInside = (path: string, realm: readonly string[]) =>
  realm.some((own) => path === own || path.startsWith(own === "/" ? "/" : `${own}/`));

describe("for the realm /api/crm", () => {
  test.each([
    "^/api/crm$",
    "^/api/crm/",
    "^/api/crm/.*$",
    "^/api/crm(/.*)?$",
    "^/api/crm(/|$)",
    "^/api/crm/v[0-9]+/books$",
    "^(/api/crm/a|/api/crm/b)",
    "^/api/crm/a|^/api/crm/b$",
    "(^/api/crm/a)|(^/api/(crm)/b)",
    "^/(api)/crm/",
    "^\\/api\\/crm\\/",
    "^/[a]pi/c{1}rm/+",
    "^/api/crm/(a|b)*$|^/api/crm$",
    "^.api/crm/",
    "^(/api/crm){1}/",
    // These match nothing at all.
    "a^b",
    "^/apix$^",
    "$/api",
  ])("~%s is within it", (expression) => {
    expect(readRegex(expression).refusal).toBeUndefined();
    expect(pathOutside(expression, ["/api/crm"])).toBeUndefined();
  });

  test.each([
    ["/api/crm/", "/x/api/crm/"],
    ["^/api/crm", "/api/crmx"],
    ["^/api/crm/|/login", "/login"],
    ["^/api/crm/|^/login$", "/login"],
    ["^/api/crm/?$|x", "/x"],
    ["^/api/crm/?", "/api/crmx"],
    ["^/api/crm*/", "/api/cr/"],
    ["^/api/cr?m/", "/api/cm/"],
    ["^/api.crm/", "/apixcrm/"],
    ["^/api/crm[/]?", "/api/crmx"],
    ["^(/api/crm)?/login$", "/login"],
    ["^(/api/crm/)?", "/"],
    ["^(/api/crm){0,2}/x", "/x"],
    ["^/api/[cd]rm/", "/api/drm/"],
    ["^/api/(crm|erp)/", "/api/erp/"],
    ["^/API/crm/", "/API/crm/"],
    ["^/api/crm.", "/api/crmx"],
    ["^/api/crm\\.", "/api/crm."],
    ["", "/"],
    ["^", "/"],
    [".*", "/"],
    ["$", "/x"],
    ["^/api/crm($|-)", "/api/crm-"],
    ["(^|x)/api/crm/", "/x/api/crm/"],
  ])("~%s is not: it matches %s", (expression, example) => {
    const path = pathOutside(expression, ["/api/crm"]) as string;
    expect(matchesRegex(pathRegex(expression), example)).toBe(true);
    expect([path, matchesRegex(pathRegex(expression), path), isInside(path, ["/api/crm"])]).toEqual([
      path,
      true,
      false,
    ]);
  });
});

test("a realm of several paths contains what alternatives of an expression match together", () => {
  const realm = ["/a", "/b/c", "/b/c/d", "/café"];
  expect(pathOutside("^/(a|b/c)/", realm)).toBeUndefined();
  expect(pathOutside("^/caf(é|é/.+)$", realm)).toBeUndefined();
  expect(pathOutside("^/(a|b)/", realm)).toMatch(/^\/b\//);
  expect(pathOutside("^/a", ["/a", "/ax"])).not.toBe("/ax");
  expect(pathOutside("anything", ["/a", "/"])).toBeUndefined();
});

test("an expression is within a realm, or matches the reported path outside it", () => {
  const segment = fc.constantFrom("a", "b", "ab", "é", "a.b");
  const path = fc.array(segment, { minLength: 1, maxLength: 3 }).map((segments) => `/${segments.join("/")}`);
  const realm = fc.uniqueArray(path, { minLength: 1, maxLength: 3 });
  const end = fc.constantFrom(
    "",
    "/",
    "$",
    "(/|$)",
    "(/.*)?$",
    "/?",
    "/?$",
    "?",
    "*",
    "+",
    "{0,1}/",
    "x",
    "|b",
    "|^/a/",
  );
  const near = fc.tuple(fc.constantFrom("^", "", "(^)", "(^|a)"), path, end, fc.oneof(fc.constant(""), regex));
  const drawn = fc.oneof(
    near.map((parts) => parts.join("")),
    regex,
  );
  let within = 0;
  let without = 0;
  fc.assert(
    fc.property(realm, drawn, fc.array(path, { maxLength: 5 }), (paths, expression, others) => {
      fc.pre(readRegex(expression).refusal === undefined);
      const example = pathOutside(expression, paths);
      const compiled = pathRegex(expression);
      if (example !== undefined) {
        without += 1;
        const reported = [expression, paths, example];
        expect([...reported, matchesRegex(compiled, example), isInside(example, paths)]).toEqual([
          ...reported,
          true,
          false,
        ]);
        return;
      }
      within += 1;
      const tails = ["", "/", "x", "/x", "b", "-", "/a"];
      for (const begin of [...paths, ...others, "/", ""]) {
        for (const tail of tails) {
          const asked = begin + tail;
          if (!asked.startsWith("/") || isInside(asked, paths)) continue;
          if (matchesRegex(compiled, asked))
            expect([expression, paths, asked, true]).toEqual([expression, paths, asked, false]);
        }
      }
    }),
    { numRuns: 10_000 },
  );
  expect(within).toBeGreaterThan(200);
  expect(without).toBeGreaterThan(1_000);
});

test("the longest expressions are checked in some milliseconds, whatever the realm", () => {
  const realm = Array.from({ length: 64 }, (_, i) => `/${"a".repeat(100 + i)}/${"b".repeat(300)}`);
  for (const expression of [
    "^(/a{0,200}){0,2}",
    "^/(a?){400}",
    "^/a{1,450}/b",
    "(a|b)*a(a|b){60}c$",
    `^(${"/?a?b?".repeat(150)})*$`,
  ]) {
    expect(readRegex(expression).refusal).toBeUndefined();
    const startMs = processorMs();
    expect(pathOutside(expression, realm)).toBeDefined();
    expect(processorMs() - startMs).toBeLessThan(1_000);
  }
});

test("expressions that are made to be long to prove are refused as such, after so much work for a policy and no more", () => {
  const paths = Array.from({ length: 64 }, (_, i) => `/api/crm/${"y".repeat(200)}${i}`);
  const slow = "^/api/[a-z/]+(.?){40}^z";
  expect(readRegex(slow).refusal).toBeUndefined();
  expect(pathOutside(slow, paths)).toBe(unproven);
  const match = { hosts: [], paths: Array.from({ length: 12 }, () => `~${slow}`), methods: [], headers: {} };
  const before = processorMs();
  const problems = matchProblems(match, { hosts: [], paths, redirects: [] });
  expect(processorMs() - before).toBeLessThan(200);
  expect(problems.map(({ path }) => path)).toEqual(match.paths.map((_, i) => `match.paths[${i}]`));
  expect(problems[0]?.got).toContain("takes too long to prove");
});
