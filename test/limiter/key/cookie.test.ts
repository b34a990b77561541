// docs/policies.md has a table of how cookies are read, which test/docs plays. Here is what the table has no room for.

import { expect, test } from "vitest";
import { cookieValue } from "../../../limiter/src/key/cookie.ts";

test("a cookie that others continue, whose names have a number behind it, is not known by itself", () => {
  for (const cookies of ["sid=a; sid.0=b", "sid.1=b;sid=a", "x=1;  sid.10=b; sid=a"])
    expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, false]);
  for (const cookies of ["sid=a; sid.x=b", "sid=a; xsid.0=b", "sid=a; x=sid.0=b", "sid=a; sid.0", "sid=a; sid.=b"])
    expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, "a"]);
  expect(cookieValue("sid.0=a; sid.1=b", "sid")).toBeUndefined();
});

const jwe = "eyJhbGciOiJkaXIifQ..c2l4dGVlbi1ieXRlcw.aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ.dGFnLW9mLXNpeHRlZW4";
const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl";

test("an encrypted token in several cookies, whose names begin with its own, is not known by one of them", () => {
  for (const suffix of [".1 ", "x", ".a", "-2", ".1x", "2", "[", ".", "~"]) {
    for (const cut of [1, 2, 20, 40, jwe.length - 1]) {
      const pieces = [`sid=${jwe.slice(0, cut)}`, `sid${suffix}=${jwe.slice(cut)}`];
      expect([suffix, cut, cookieValue(pieces.join("; "), "sid")]).toEqual([suffix, cut, false]);
      expect([suffix, cut, cookieValue(pieces.reverse().join(";"), "sid")]).toEqual([suffix, cut, false]);
    }
  }
  const encoded = `sid=${jwe.slice(0, 20)}; sidx=${jwe.slice(20).replaceAll(".", "%2E")}`;
  expect(cookieValue(encoded, "sid")).toBe(false);
});

test("a cookie beside others whose names begin with its own is known by itself if they are no part of it", () => {
  for (const other of [`sid_refresh=${jwt}`, "sid_ip=10.1.2.3", "sid_v=1.2.3.4.5", "sidx=a.b", "xsid=a.b.c.d.e"]) {
    const cookies = `sid=${other.includes("refresh") ? jwt : "a"}; ${other}`;
    expect([other, cookieValue(cookies, "sid")]).toEqual([other, other.includes("refresh") ? jwt : "a"]);
  }
  expect(cookieValue(`sid=${jwe}; sid_seen=yes`, "sid")).toBe(false);
  expect(cookieValue(`sid=${jwe}; theme=dark`, "sid")).toBe(jwe);
});

test("a session of ASP.NET Core in chunks is the session, and its number has one spelling", () => {
  const [first, rest] = ["CfDJ8ANNxx", "yyzz"];
  const chunks = `sidC1=${first}; sidC2=${rest}`;
  expect(cookieValue(`sid=chunks-2; ${chunks}`, "sid")).toBe(first + rest);
  expect(cookieValue(`sidC2=${rest}; sid=chunks-2; sidC1=${first}`, "sid")).toBe(first + rest);
  for (const number of ["02", "002", "2%00", "2x", "0", "201", "99999999999"])
    expect([number, cookieValue(`sid=chunks-${number}; ${chunks}`, "sid")]).toEqual([number, false]);
  for (const value of ["chunks-3", "chunks-", "chunks-x", "chunks"])
    expect([value, cookieValue(`sid=${value}; ${chunks}`, "sid")]).toEqual([value, value]);
  expect(cookieValue(`sid=chunks-2; ${chunks}; sidC2=other`, "sid")).toBe(false);
});
