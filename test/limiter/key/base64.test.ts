// docs/policies.md has a table of spellings; here they are random.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hasOddParts, isBasicCredential, isOnlySpelling } from "../../../limiter/src/key/base64.ts";

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
        // The tag of an encrypted one is never empty.
        fc.pre(parts === 3 || others.at(-1)?.length !== 0);
        expect(isOnlySpelling([header, ...others.map((each) => each.toString("base64url"))].join("."))).toBe(true);
      }),
    );
  });

  it("is read in no other spelling", () => {
    fc.assert(
      fc.property(written, (text) => {
        const isCanonical = text.split(".").every((part) => Buffer.from(part, "base64").toString("base64url") === part);
        const dots = text.split(".").length - 1;
        const isToken = dots === 0 || (dots === 2 && !text.endsWith("."));
        expect(isOnlySpelling(`${header}.e30.${text}`)).toBe(isCanonical && isToken);
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

  it("may be a session of Phoenix", () => {
    const session = "SFMyNTY.g3QAAAABbQAAAAR1c2Vy.c2k";
    expect(isOnlySpelling(session)).toBe(true);
    for (const other of ["c2l", "c2k=", "c2m"]) expect(isOnlySpelling(session.replace("c2k", other))).toBe(false);
  });

  it("may be a session of Flask that is compressed", () => {
    const session = ".eJyrVkosLcmIz8nPS1WyUkrMy1PSUcpIzMxRAlEghlItAFPFCx8.aSd3Qw.c2k";
    expect(isOnlySpelling(session)).toBe(true);
    for (const more of ["!", "=", ".", "*~"])
      expect([more, isOnlySpelling(`${session}${more}`)]).toEqual([more, more === "."]);
    expect(isOnlySpelling(session.replace(/k$/, "l"))).toBe(false);
  });

  it("has two dots or four: some servers forget empty parts at its end", () => {
    for (const more of [".", "..", ".x", ".x.y.z"])
      expect([more, isOnlySpelling(`${header}.e30.c2k${more}`), hasOddParts(`${header}.e30.c2k${more}`)]).toEqual([
        more,
        false,
        true,
      ]);
    for (const text of [`${header}.e30.`, `${header}.e30.c2k`, `${header}.e30.c2k.c2k.c2k`, "1.2.3.4", `${header}.e30`])
      expect([text, hasOddParts(text)]).toEqual([text, false]);
  });

  it("may be a session of iron-session, behind which only its version stands", () => {
    const session = "Fe26.2*1*a*b*c*1790000000000*d*e";
    expect(["", "~2", "~2x", "~", "~3"].map((end) => isOnlySpelling(session + end))).toEqual([
      ...[true, true, false, false, false],
    ]);
  });

  it("has two dots and begins with an object: other texts are read as they are", () => {
    for (const text of ["eyes.example.com", "eyJ9.c2l", "eyJ9", "a.b.c2l", "v4.public.c2l", "", "ey"]) {
      expect([text, isOnlySpelling(text)]).toEqual([text, true]);
    }
  });
});
