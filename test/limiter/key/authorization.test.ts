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
        if (typeof token === "string") expect(token).toMatch(/^[!-~]+$/);
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
    for (const spelling of ['Token token="abc", n="1"', "token abc,n=1", "Token abc;x", 'Token "abc"'])
      expect([spelling, authorizationValue(spelling)]).toEqual([spelling, "Bearer abc"]);
    expect(authorizationValue("Bearer token=abc")).toBe("Bearer abc");
    expect(authorizationValue("Token ,abc")).toBe(false);
  });

  test("is the same behind every scheme, in every spelling of it and of the blanks behind it, and without a scheme", () => {
    for (const scheme of [
      "Bearer ",
      "bearer ",
      "BEARER\t",
      "Bearer  \t ",
      "\tBearer ",
      "JWT ",
      "x ",
      "Bearer: ",
      '"Bearer" ',
      "",
    ]) {
      expect([scheme, authorizationValue(`${scheme}a.b`), bearerToken(`${scheme}a.b`)]).toEqual([
        scheme,
        "Bearer a.b",
        "a.b",
      ]);
    }
    for (const spelling of ["Basic YTpi", "basic YTpi", "BASIC \t YTpi\t"]) {
      expect(authorizationValue(spelling)).toBe("Basic YTpi");
      expect(bearerToken(spelling)).toBeUndefined();
    }
  });

  test("may be a scheme alone, or nothing", () => {
    for (const word of ["Basic", "bearer", ""])
      expect([authorizationValue(word), bearerToken(word)]).toEqual([word, undefined]);
  });

  test("is one word of any characters behind every scheme but Bearer, in which there is no JSON Web Token", () => {
    expect(authorizationValue("id:secret")).toBe("id:secret");
    for (const scheme of ["SharedKey", "x"]) expect(authorizationValue(`${scheme} id:secret`)).toBe("Bearer id:secret");
    const jwt = "eyJ9.eyJ9.c2k";
    for (const junk of [",,,,", ";", "!!!!", "!x", '"', " ~~~", ", x=1", " x=1"]) {
      for (const odd of [`x ${jwt}${junk}`, `${jwt}${junk}`, `Digest "${jwt}${junk}`, `x a=1,${jwt}${junk}`]) {
        expect([odd, authorizationValue(odd), bearerToken(odd)]).toEqual([odd, false, false]);
      }
    }
  });

  test("has parameters as they are", () => {
    for (const value of [
      'Digest username="ann", realm="My Own App", response="abc", nc=1',
      "Digest username*=UTF-8''J%C3%A4s,\trealm=\"a\"",
      "Aws4-hmac-sha256 Credential=AK/20261127/eu/s3/aws4_request, SignedHeaders=host, Signature=abc",
      'Signature keyId="k",signature="abc=="',
      'Hawk id="a b c", ts="1"',
      'Digest username="CORP\\\\j\xc3\xa0n", realm="a \\"b\\""',
      "Aws4-hmac-sha256 SignedHeaders=host;x-amz-date",
    ]) {
      expect(authorizationValue(value)).toBe(value);
      expect(bearerToken(value)).toBeUndefined();
    }
  });

  test("is refused if servers differ on what it says", () => {
    for (const odd of [
      "Bearer a,b",
      "Bearer a b",
      "x Bearer a",
      "Basic\u00a0YTpi",
      'x "a" b',
      'x a "b"',
      'x\t"a b',
      'x "a"\xa0b"',
      'x "Bearer a"',
    ]) {
      expect([odd, authorizationValue(odd)]).toEqual([odd, false]);
    }
  });

  test("is found as services find it, or is refused", () => {
    const parts = ["Bearer", "bearer", "Token", "x", " ", " ", "\t", "tok.en", ",", '"', "=", "\u00a0", ";", "\x1c"];
    const readers = [
      (value: string) => value.split(" ")[1],
      (value: string) => value.split(/\s+/).at(-1),
      (value: string) => value.replace(/^Bearer /, ""),
      (value: string) => /bearer\s+(\S+)/i.exec(value)?.[1],
      (value: string) => (value[6] === " " ? value.slice(7).trim() : undefined),
    ];
    const header = fc.array(fc.constantFrom(...parts), { maxLength: 8 }).map((each) => each.join("").trim());
    fc.assert(
      fc.property(header, (value) => {
        for (const read of readers) {
          if (read(value) === "tok.en") expect(["Bearer tok.en", false]).toContain(authorizationValue(value));
        }
      }),
      { numRuns: 20_000 },
    );
  });
});

describe("another header, cookie, argument or field", () => {
  const jwt = "eyJ9.eyJ9.c2k";

  test("is the same in every spelling of a scheme that services know, and of any scheme before a JSON Web Token", () => {
    for (const spelling of ["Token abcdefgh", "token abcdefgh", "TOKEN\tabcdefgh", "tOkEn  \t abcdefgh"]) {
      expect(valueWithToken(spelling, "x-token")).toBe("abcdefgh");
    }
    for (const scheme of ["Bearer ", "bearer\t", "BEARER    ", "bearer+", "Bearer\xa0", "bearer\x0b "]) {
      expect(valueWithToken(`${scheme}${jwt}`, "x-authorization")).toBe(jwt);
      expect(valueWithToken(scheme.replace(/b/i, "w") + jwt, "sid")).toBe(jwt);
    }
  });

  test("is refused if its token has other spellings", () => {
    for (const odd of ["c2l", "c2k=", "c+_k", "c2!k"]) {
      for (const scheme of ["", "Bearer ", "jwt  ", "My-Own\t", "bearer+"]) {
        const value = `${scheme}eyJ9.eyJ9.${odd}`;
        expect([value, valueWithToken(value, "x")]).toEqual([value, false]);
      }
    }
    for (const before of ["Bearer:", "token=", "x=1; token=", "xeyJ Bearer="]) {
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
