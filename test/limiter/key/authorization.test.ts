import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { authorizationValue, bearerToken, valueWithToken } from "../../../limiter/src/key/authorization.ts";

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
  test("may be a token of Laravel Sanctum, or one that Rails reads, with whatever parameters", () => {
    for (const spelling of ["Bearer 1|abc", "Bearer 01|abc", "bearer 0002|abc", "Bearer abc"])
      expect([spelling, authorizationValue(spelling)]).toEqual([spelling, "Bearer abc"]);
    for (const other of ["a1|abc", "|abc", "1|"]) expect(authorizationValue(`Bearer ${other}`)).toBe(`Bearer ${other}`);
    for (const spelling of ['Token token="abc", n="1"', "token abc,n=1", "Token abc;x", 'Token "abc"', "Token abc\tx"])
      expect([spelling, authorizationValue(spelling)]).toEqual([spelling, "Token abc"]);
    expect(authorizationValue("Bearer token=abc")).toBe("Bearer abc");
    expect(authorizationValue("Token ,abc")).toBe(false);
  });

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

describe("another header, cookie, argument or field", () => {
  const jwt = "eyJ9.eyJ9.c2k";

  test("is the same in every spelling of a scheme that services know, and of any scheme before a JSON Web Token", () => {
    for (const spelling of ["Token abcdefgh", "token abcdefgh", "TOKEN\tabcdefgh", "tOkEn  \t abcdefgh"]) {
      expect(valueWithToken(spelling, "x-token")).toBe("Token abcdefgh");
    }
    for (const scheme of ["Bearer ", "bearer\t", "BEARER    ", "bearer+", "Bearer\xa0", "bearer\x0b "]) {
      expect(valueWithToken(`${scheme}${jwt}`, "x-authorization")).toBe(`Bearer ${jwt}`);
      expect(valueWithToken(scheme.replace(/b/i, "w") + jwt, "sid")).toBe(`Wearer ${jwt}`);
    }
  });

  test("is refused if its token has other spellings", () => {
    for (const odd of ["c2l", "c2k=", "c+_k", "c2!k"]) {
      for (const scheme of ["", "Bearer ", "jwt  ", "My-Own\t", "bearer+"]) {
        const value = `${scheme}eyJ9.eyJ9.${odd}`;
        expect([value, valueWithToken(value, "x")]).toEqual([value, false]);
      }
    }
    for (const before of ["Bearer:", "token=", "x=1; token=", 'Token token="', "xeyJ Bearer="]) {
      expect([before, valueWithToken(`${before}eyJ9.eyJ9.c2l`, "x")]).toEqual([before, false]);
      expect(valueWithToken(`${before}${jwt}`, "x")).toBe(`${before}${jwt}`);
    }
    for (const odd of [`Bearer x ${jwt}`, `Bearer ${jwt} x`, `a b c\t${jwt}`])
      expect(valueWithToken(odd, "x")).toBe(false);
    expect(valueWithToken("BASIC  YTpiYw==", "x-authorization")).toBe("Basic YTpiYw==");
    expect(valueWithToken("Basic YTpiYx==", "x-authorization")).toBe(false);
  });

  test("is as it is otherwise", () => {
    const others = [
      "ann smith of london",
      "ann  smith",
      "my-app beta two",
      "myApp betatest",
      "basic+yoga+shoes",
      "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
      "keyJ and.more.dots",
      "see eyJ and eyJ.x",
      "",
      "a",
      " ",
    ];
    for (const value of others) expect(valueWithToken(value, "x-user")).toBe(value);
    expect(valueWithToken("basic monthly", "x-plan")).toBe("Basic monthly");
  });
});
