import { describe, expect, test } from "vitest";
import { matchesPath, pathPattern } from "../../limiter/src/match/path-pattern.ts";

const matches = (patterns: string[], path: string) => matchesPath(patterns.map(pathPattern), path);

describe("a path pattern", () => {
  test("without a star matches this path alone", () => {
    expect(matches(["/api/books"], "/api/books")).toBe(true);
    for (const other of ["/api/books/", "/api/book", "/api/books/1", "/API/books", "/", ""]) {
      expect(matches(["/api/books"], other)).toBe(false);
    }
  });

  test("with a star matches everything that begins so, the empty rest too", () => {
    for (const path of ["/api/books/", "/api/books/1", "/api/books/1/2"]) {
      expect(matches(["/api/books/*"], path)).toBe(true);
    }
    for (const other of ["/api/books", "/api/bookshelf", "/v1/api/books/1"]) {
      expect(matches(["/api/books/*"], other)).toBe(false);
    }
    expect(matches(["/api/book*"], "/api/bookshelf")).toBe(true);
    expect(matches(["/*"], "/")).toBe(true);
  });

  test("takes every other character for itself", () => {
    expect(matches(["/a.c"], "/abc")).toBe(false);
    expect(matches(["/a.*"], "/abc")).toBe(false);
    expect(matches(["/a%b[c]*"], "/a%b[c]d")).toBe(true);
  });

  test("is one of several: any may match, none matches nothing", () => {
    expect(matches(["/a", "/b/*"], "/b/1")).toBe(true);
    expect(matches(["/a", "/b/*"], "/c")).toBe(false);
    expect(matches([], "/a")).toBe(false);
  });
});
