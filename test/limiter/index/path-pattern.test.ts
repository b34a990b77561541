import { describe, expect, test } from "vitest";
import { compilePolicy } from "../../../limiter/src/compiled/compile.ts";
import { candidates, indexPolicies, meets } from "../../../limiter/src/index/policy-index.ts";
import { policyNamed } from "../policies.ts";

/** Returns whether a policy of these paths matches, both with the index and when the index leaves all paths to the policy. */
function matches(paths: string[], path: string): boolean {
  const met = [paths, [...paths, "~[^\\s\\S]"]].map((patterns) => {
    const policy = compilePolicy("shop", policyNamed("p", { match: { paths: patterns } }));
    return candidates(indexPolicies([policy]), "", path).some((one) => meets(one, path, "GET", () => false));
  });
  expect(met[0]).toBe(met[1]);
  return met[0] as boolean;
}

describe("a path pattern", () => {
  test("without a star matches only this path", () => {
    expect(matches(["/api/books"], "/api/books")).toBe(true);
    for (const other of ["/api/books/", "/api/book", "/api/books/1", "/API/books", "/", ""]) {
      expect(matches(["/api/books"], other)).toBe(false);
    }
  });

  test("with a star matches every path with this prefix, also without a rest", () => {
    for (const path of ["/api/books/", "/api/books/1", "/api/books/1/2"]) {
      expect(matches(["/api/books/*"], path)).toBe(true);
    }
    for (const other of ["/api/books", "/api/bookshelf", "/v1/api/books/1"]) {
      expect(matches(["/api/books/*"], other)).toBe(false);
    }
    expect(matches(["/api/book*"], "/api/bookshelf")).toBe(true);
    expect(matches(["/*"], "/")).toBe(true);
  });

  test("matches every other character literally", () => {
    expect(matches(["/a.c"], "/abc")).toBe(false);
    expect(matches(["/a.*"], "/abc")).toBe(false);
    expect(matches(["/a%b[c]*"], "/a%b[c]d")).toBe(true);
  });

  test("is one of several, any of which may match", () => {
    expect(matches(["/a", "/b/*"], "/b/1")).toBe(true);
    expect(matches(["/a", "/b/*"], "/c")).toBe(false);
    expect(matches(["/a", "/a/*", "/a/b/*"], "/a/b/c")).toBe(true);
  });

  test("with a tilde matches what its regular expression matches, anywhere in the path", () => {
    expect(matches(["~^/v[0-9]+/books$"], "/v12/books")).toBe(true);
    expect(matches(["~^/v[0-9]+/books$"], "/v12/books/1")).toBe(false);
    expect(matches(["~books"], "/a/books/1")).toBe(true);
    expect(matches(["~books", "/a"], "/a")).toBe(true);
    expect(matches(["~books", "/a/*"], "/a/b")).toBe(true);
    expect(matches(["~books", "/a/*"], "/b")).toBe(false);
  });
});
