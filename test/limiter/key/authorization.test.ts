import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { authorizationValue, bearerToken } from "../../../limiter/src/key/authorization.ts";

describe("a bearer token", () => {
  test("is one text without blanks, or absent, whatever the header", () => {
    const part = fc.constantFrom("Bearer", "bearer", " ", "\t", "a.b.c", ",", "x", "\u00a0", '"', "Basic");
    const header = fc.array(part, { maxLength: 6 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(header, (authorization) => {
        const token = bearerToken(authorization);
        if (typeof token === "string") expect(token).toMatch(/^[A-Za-z0-9._~+/=-]+$/);
        // What servers that split at blanks find is found here, or refused.
        const [scheme = "", second] = authorization.trim().split(/\s+/);
        if (scheme.toLowerCase() === "bearer" && second === "a.b.c") expect(["a.b.c", false]).toContain(token);
      }),
    );
  });
});

describe("an Authorization header as a key", () => {
  test("is the same in every spelling of its scheme and of the blanks behind it", () => {
    for (const spelling of ["Bearer a.b", "bearer a.b", "BEARER\ta.b", "Bearer  \t a.b ", "\tBearer a.b"]) {
      expect(authorizationValue(spelling)).toBe("Bearer a.b");
    }
    for (const spelling of ["Basic YTpi", "basic YTpi", "BASIC \t YTpi\t"]) {
      expect(authorizationValue(spelling)).toBe("Basic YTpi");
    }
  });

  test("is the whole header if that is one word", () => {
    for (const word of ["aKeyOfSomebody", "bearer", ""]) expect(authorizationValue(word)).toBe(word);
  });

  test("is refused if servers differ on what it says", () => {
    for (const odd of ["Bearer a,b", "Bearer a b", "x Bearer a", "Basic\u00a0YTpi"]) {
      expect(authorizationValue(odd)).toBe(false);
    }
  });
});
