// docs/policies.md says how spellings of cookies and bearer tokens are read: by Sluice, and by the parsers of services. The
// parsers of npm run here. The columns of Go and Python are what those parsers returned when the table was made.

import { parseCookie } from "cookie";
import { parse as parseOfExpress } from "cookie-of-express";
import fc from "fast-check";
import { Cookie } from "tough-cookie";
import { describe, expect, it } from "vitest";
import { authorizationValue, bearerToken } from "../../limiter/src/key/authorization.ts";
import { cookieValue } from "../../limiter/src/key/cookie.ts";
import { documentedSpellings } from "../fixtures/documents/documented-spellings.ts";

const parsers: Record<string, (cookies: string) => string | undefined> = {
  "`cookie` 0.7 (Express)": (cookies) => parseOfExpress(cookies)["sid"],
  "`cookie` 2.0 (Fastify)": (cookies) => parseCookie(cookies)["sid"],
  "`tough-cookie` 6.1": (cookies) => {
    for (const pair of cookies.split(";")) {
      const cookie = Cookie.parse(pair);
      if (cookie?.key === "sid") return cookie.value;
    }
    return undefined;
  },
};

const spellings = documentedSpellings("`Cookie:`");

describe("the table of cookies", () => {
  it.each(spellings)("says how $written is read", ({ written, reading, others }) => {
    expect(cookieValue(written, "sid")).toBe(reading);
    for (const [name, parse] of Object.entries(parsers)) expect([name, parse(written)]).toEqual([name, others[name]]);
  });

  it("is followed by the bound: of 1,000 cookies one is read, and of 1,001 none", () => {
    expect(cookieValue(`${"x=1; ".repeat(999)}sid=ann`, "sid")).toBe("ann");
    expect(cookieValue(`${"x=1; ".repeat(1_000)}sid=ann`, "sid")).toBe(false);
    expect(cookieValue(`x${"=".repeat(999)}; s=ann`, "s")).toBe("ann");
    expect(cookieValue(`x${"=".repeat(1_000)}; s=ann`, "s")).toBe(false);
    expect(cookieValue(`x=${"s".repeat(998)}; s=ann`, "s")).toBe("ann");
    expect(cookieValue(`x=${"s".repeat(1_000)}; s=ann`, "s")).toBe(false);
  });

  it("has no two spellings that one parser reads alike and Sluice as two values", () => {
    for (const name of Object.keys(spellings[0]?.others ?? {})) {
      const counters = new Map<string, Set<string>>();
      for (const { reading, others } of spellings) {
        const read = others[name];
        if (typeof read !== "string" || read === "" || typeof reading !== "string") continue;
        counters.set(read, (counters.get(read) ?? new Set()).add(reading));
      }
      for (const [read, own] of counters) expect([name, read, ...own]).toHaveLength(3);
    }
  });

  it("has no spelling with a value that Sluice reads as no cookie", () => {
    for (const { written, reading, others } of spellings) {
      if (reading !== undefined && reading !== "") continue;
      for (const read of Object.values(others)) expect([written, read ?? ""]).toEqual([written, ""]);
    }
  });
});

describe("whatever a client writes for a cookie", () => {
  const parts = [
    "sid",
    "=",
    "alice",
    " ",
    "\t",
    ";",
    "%61lice",
    '"',
    "%22",
    "%20",
    "junk",
    "\\",
    "\u000b",
    ",",
    "a",
    "%",
  ];
  const line = fc.array(fc.constantFrom(...parts), { maxLength: 10 }).map((each) => each.join(""));

  it("has the same counter, or is refused, if a parser reads the same value", () => {
    fc.assert(
      fc.property(line, (cookies) => {
        for (const parse of Object.values(parsers)) {
          if (parse(cookies) === "alice") expect(["alice", false]).toContain(cookieValue(cookies, "sid"));
        }
      }),
      { numRuns: 20_000 },
    );
  });
});

describe("the table of bearer tokens", () => {
  it.each(documentedSpellings("`Authorization:`"))("says how $written is read", ({ written, reading }) => {
    expect(bearerToken(written)).toBe(reading);
  });
});

describe("the table of Authorization in a key", () => {
  it.each(documentedSpellings("`Authorization:` in a key"))("says how $written is read", ({ written, reading }) => {
    expect(authorizationValue(written)).toBe(reading);
  });
});
