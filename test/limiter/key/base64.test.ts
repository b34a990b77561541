// docs/policies.md has a table of spellings; here they are random.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isBasicCredential, isOnlySpelling } from "../../../limiter/src/key/base64.ts";

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=.!";
const written = fc.array(fc.constantFrom(...digits), { maxLength: 12 }).map((each) => each.join(""));
const bytes = fc.uint8Array({ maxLength: 20 }).map((each) => Buffer.from(each));

describe("credentials of Basic", () => {
  it("are read as any encoder writes a text without control characters", () => {
    fc.assert(
      fc.property(bytes, (text) => {
        const hasControls = text.some((byte) => byte < 32 || byte === 127);
        expect(isBasicCredential(text.toString("base64"))).toBe(!hasControls);
      }),
      { numRuns: 2_000 },
    );
  });

  it("are read in no other spelling", () => {
    fc.assert(
      fc.property(written, (text) => {
        if (isBasicCredential(text)) expect(Buffer.from(text, "base64").toString("base64")).toBe(text);
      }),
      { numRuns: 20_000 },
    );
  });
});

describe("a JSON Web Token", () => {
  const header = Buffer.from('{"alg":"RS256"}').toString("base64url");

  it.each([3, 5])("of %d parts is read as any issuer writes it", (parts) => {
    fc.assert(
      fc.property(fc.array(bytes, { minLength: parts - 1, maxLength: parts - 1 }), (others) => {
        expect(isOnlySpelling([header, ...others.map((each) => each.toString("base64url"))].join("."))).toBe(true);
      }),
    );
  });

  it("is read in no other spelling", () => {
    fc.assert(
      fc.property(written, (text) => {
        const isCanonical = text.split(".").every((part) => Buffer.from(part, "base64").toString("base64url") === part);
        expect(isOnlySpelling(`${header}.e30.${text}`)).toBe(isCanonical);
      }),
      { numRuns: 20_000 },
    );
  });

  it("has a signature in one spelling, whatever its other parts are, as they are signed as they are written", () => {
    fc.assert(
      fc.property(written, (text) => {
        const payload = text.replaceAll(".", "");
        expect(isOnlySpelling(`eyJ1IjoxfQ==${payload}.aSd3Qw.c2k`)).toBe(true);
        expect(isOnlySpelling(`eyJ1IjoxfQ==${payload}.aSd3Qw.c2l`)).toBe(false);
      }),
    );
  });

  it("may be a session of Flask that is compressed", () => {
    const session = ".eJyrVkosLcmIz8nPS1WyUkrMy1PSUcpIzMxRAlEghlItAFPFCx8.aSd3Qw.c2k";
    expect(isOnlySpelling(session)).toBe(true);
    for (const more of ["!", "=", ".", "*~"])
      expect([more, isOnlySpelling(`${session}${more}`)]).toEqual([more, more === "."]);
    expect(isOnlySpelling(session.replace(/k$/, "l"))).toBe(false);
  });

  it("has two dots and begins with an object: other texts are read as they are", () => {
    for (const text of ["eyes.example.com", "eyJ9.c2l", "eyJ9", "a.b.c2l", "v4.public.c2l", "", "ey"]) {
      expect([text, isOnlySpelling(text)]).toEqual([text, true]);
    }
  });
});
