import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { normalPath } from "../../../console/src/trial/request.ts";
import {
  isAmbiguousPath,
  otherPaths,
  pathOfNginx,
  withoutParameters,
} from "../../../limiter/src/match/request-path.ts";

describe("servers read different paths in", () => {
  it.each([
    ...["//x/login", "//", "/\\x", "/x\\..\\y", "/.", "/..", "/a/.", "/a/..", "/./a", "/a/../b"],
    ...[
      "/%2e",
      "/%2E%2e/a",
      "/.%2e/a",
      "/a;b%2fc",
      "/a%2f..",
      "/a%2F.%2fb",
      "/..;/a",
      "/.;a=1/b",
      "/a/%2e;",
      "/..?a",
      "/a/.%2F",
    ],
    ...["/login%0a", "/login%0D%0A", "/a%00", "/%09/a", "/a%1F?x", "/a%7f", "/a%7Fb", "/%25%1a", "/a\tb", "/a\x7f"],
    ...["/%2f", "/a%2Fb", "/a;b/c%2Fd", "/a.%2fb", "/x#y", "/#", "/x#\\.."],
  ])("%s", (target) => expect(isAmbiguousPath(target)).toBe(true));
});

describe("servers read one path in", () => {
  it.each([
    ...["/", "/a", "/a//b", "/a//", "/a.b", "/.a", "/a.", "/...", "/..a", "/a..", "/.%61", "/a;..", "/a;/b", "/;a/b"],
    ...[
      "/%252e",
      "/%5c",
      "/%23",
      "/%",
      "/%2",
      "/a?",
      "/a?%0a",
      "/a%20",
      "/a%70%8a%a0%ff",
      "/a%0",
      "/a?/../b",
      "/a?b\\c#d",
      "/?//",
      "",
    ],
  ])("%s", (target) => expect(isAmbiguousPath(target)).toBe(false));
});

describe("the other paths that servers read in an ambiguous target, each once and without nginx's", () => {
  it.each([
    ["//x/login", ["/login"]],
    ["//x", ["/"]],
    ["///.x/login", ["/login"]],
    ["/\\x/login", ["/login", "/x/login"]],
    ["/x\\..\\login", ["/login"]],
    ["/login/../x?y=/z", ["/login/../x"]],
    ["/login/%2e%2E%2Fx", ["/login/../x", "/login/..%2Fx"]],
    ["/login//..", ["/login/..", "/login/"]],
    ["/a/b/..", ["/a/b/.."]],
    ["/a;b%2fc", ["/a", "/a;b%2fc"]],
    ["/search/a%2Fb", ["/search/a%2Fb"]],
    ["/search/a%2f", ["/search/a%2f"]],
    ["/%zz/./%4", ["/%zz/./%4"]],
  ])("%s are %j", (target, paths) => {
    expect(isAmbiguousPath(target)).toBe(true);
    expect(otherPaths(target, pathOfNginx(target))).toEqual(paths);
  });

  it.each([
    ["has a #", "/search/#a"],
    ["has a line end", "/search/a%0a?b"],
    ["has a control character", "/a/%7F"],
    ["has 500 slashes", `/login${"/".repeat(8_050)}./`],
    ["has 500 encoded slashes", `/login${"%2F".repeat(2_000)}`],
    ["has 500 backslashes", `/login${"\\".repeat(500)}`],
    ["is so long that its readings have more than 16 KB", `//x/${"ab".repeat(3_900)};c`],
  ])("are not told if it %s", (_, target) => {
    expect(isAmbiguousPath(target)).toBe(true);
    expect(otherPaths(target, pathOfNginx(target))).toBeUndefined();
  });
});

describe("servlet containers read, without parameters,", () => {
  it.each([
    ["/a", "/a"],
    ["/a;x", "/a"],
    ["/a;x=1;y=2", "/a"],
    ["/a/;x", "/a/"],
    ["/;x", "/"],
    ["/;a/login", "/login"],
    ["/;a/;b/login", "/login"],
    ["/a;x/b;y/c", "/a/b/c"],
    ["/a/;x/b/;y", "/a/b/"],
    ["/a;/", "/a/"],
  ])("%s as %s", (path, read) => expect(withoutParameters(path)).toBe(read));
});

it("a target in which servers read one path leads URLs and nginx to the same one", () => {
  const part = fc.constantFrom("/", "a", ".", "..", ";b", "\\", "#", "?", "%2e", "%2F", "%61", "%5c", "%3b", "%0a");
  fc.assert(
    fc.property(fc.array(part, { maxLength: 10 }), (parts) => {
      const target = `/${parts.join("")}`;
      fc.pre(!isAmbiguousPath(target));
      const { pathname, host } = new URL(target, "http://x");
      expect(host).toBe("x");
      expect(normalPath(target)).toBe(decodeURIComponent(pathname).replace(/\/{2,}/g, "/"));
    }),
    { numRuns: 5_000 },
  );
});
