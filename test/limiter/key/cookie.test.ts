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
