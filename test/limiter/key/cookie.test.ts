// docs/policies.md has a table of how cookies are read, which test/docs plays. Here is what the table has no room for.

import { parseCookie } from "cookie";
import { parse as parseOfExpress } from "cookie-of-express";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { cookieValue } from "../../../limiter/src/key/cookie.ts";

test("a cookie that others continue, whose names have a number behind it, is not known by itself", () => {
  for (const cookies of ["sid=a; sid.0=b", "sid.1=b;sid=a", "x=1;  sid.10=b; sid=a"])
    expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, false]);
  for (const cookies of ["sid=a; sid.x=b", "sid=a; xsid.0=b", "sid=a; x&sid.0=b", "sid=a; sid.0", "sid=a; sid.=b"])
    expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, "a"]);
});

const parts = (separator: string, texts: readonly string[]) => texts.map((text, i) => `sid${separator}${i}=${text}`);

describe.each([".", "_", "__"])("a session in cookies whose names have a number behind %s", (separator) => {
  const of = (...texts: string[]) => parts(separator, texts).join("; ");

  it("is what they are joined to in the order of their numbers, wherever it is cut", () => {
    const session = "djIuWDI5aGR+YUm9==|1764270000|c2ln+bmF0dXJl";
    for (let cut = 1; cut < session.length; cut++) {
      const texts = [session.slice(0, cut), session.slice(cut)];
      expect(cookieValue(of(...texts), "sid")).toBe(session);
      expect(cookieValue(parts(separator, texts).reverse().join(";"), "sid")).toBe(session);
    }
    expect(cookieValue(of(session), "sid")).toBe(session);
    expect(cookieValue(`sid=; ${of(session)}`, "sid")).toBe(session);
    expect(cookieValue(of(..."abcdefghijkl"), "sid")).toBe("abcdefghijkl");
    expect(cookieValue(of("a%7C", "%20b"), "sid")).toBe("a|+b");
    expect(cookieValue(`sid=a%7C%20b`, "sid")).toBe("a|+b");
  });

  it("is ambiguous if services join different parts", () => {
    const more = (text: string) => `${of("a", "b")}; sid${separator}${text}`;
    const odd = ["3=c", "1=c", "1=b", "2=", "2 =c", "2\t=c", '2="c"', '2=c"', "2=\tc", "2=%zz", "2=%", "02=c", "200=c"];
    for (const text of odd) expect([text, cookieValue(more(text), "sid")]).toEqual([text, false]);
    expect(cookieValue(`${of("a", "b")};\tsid${separator}2=c`, "sid")).toBe(false);
    expect(cookieValue(more("2=c"), "sid")).toBe("abc");
    expect(cookieValue(`${of("a", "b")}; sid-0=c; sids=d; sid${separator}x=e; sid${separator}1x=f`, "sid")).toBe("ab");
  });
});

describe("whatever a client writes for the parts of a session", () => {
  /** Go drops a cookie whose name or value has characters that it should not have. */
  const parseOfGo = (cookies: string) => {
    const read: Record<string, string> = {};
    for (const pair of cookies.split(";").map((text) => text.replace(/^[ \t]+|[ \t]+$/g, ""))) {
      const [name = "", ...rest] = pair.split("=");
      const value = rest.join("=").replace(/^"(.*)"$/, "$1");
      if (/^[\w.-]+$/.test(name) && /^[ -!#-:<-[\]-~]*$/.test(value)) read[name] ??= value;
    }
    return read;
  };
  /** Next.js takes names as they are, and drops a cookie that it cannot decode. */
  const parseOfNext = (cookies: string) => {
    const read: Record<string, string> = {};
    for (const pair of cookies.split(/; */)) {
      const at = pair.indexOf("=");
      try {
        if (at >= 0) read[pair.slice(0, at)] = decodeURIComponent(pair.slice(at + 1));
      } catch {}
    }
    return read;
  };
  const parsers = { parseCookie, parseOfExpress, parseOfGo, parseOfNext };
  const pieces = ["sid_0=", "sid_1=", "sid_2=", "sid=", "sid", "_", "0", "=", "al", "ice", "x", "; ", ";", " ", "\t"];
  const odd = ['"', "%61", "%", "%zz", "+", ",", "\\", "\u000b"];
  const written = fc
    .array(fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...pieces) }, fc.constantFrom(...odd)), { maxLength: 8 })
    .map((each) => `sid_0=al; sid_1=ice${each.join("")}`);

  it("has the counter of what a service joins, or is refused", () => {
    let counted = 0;
    fc.assert(
      fc.property(written, (cookies) => {
        for (const parse of Object.values(parsers)) {
          const read = parse(cookies);
          let joined = "";
          for (let i = 0; read[`sid_${i}`]; i++) joined += read[`sid_${i}`];
          // Services in Go take an empty cookie for the session, too.
          const own = parse === parseOfGo ? read["sid"] : read["sid"] || undefined;
          if ((own ?? joined) !== "alice") continue;
          const value = cookieValue(cookies, "sid");
          expect(["alice", false]).toContain(value);
          if (value !== false) counted += 1;
        }
      }),
      { numRuns: 20_000 },
    );
    expect(counted).toBeGreaterThan(1_000);
  });
});

test("a session has 200 parts at most, and no more cookies whose names begin with its own are looked at", () => {
  const texts = Array(200).fill("a");
  expect(cookieValue(parts("_", texts).join(";"), "sid")).toBe(texts.join(""));
  expect(cookieValue([...parts("_", texts), "sidx=b"].join(";"), "sid")).toBe(false);
  expect(cookieValue(["sid=a", ...parts("x", [...texts, "b"])].join(";"), "sid")).toBe(false);
});

test("a session in parts that different services join is ambiguous", () => {
  expect(cookieValue("sid.0=a; sid_0=b", "sid")).toBe(false);
  expect(cookieValue("sid_0=a; sid__0=b", "sid")).toBe(false);
});

test("a cookie whose name has a number behind it is no part of a session if no part is the first, but of Auth.js'", () => {
  for (const cookies of ["sid_1=a", "sid_2024=a; sid_2025=b", "sid__1=a", "sid_01=a", "xsid_0=a", "sid-0=a", "sid0=a"])
    expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, undefined]);
  expect(cookieValue("sid.1=a", "sid")).toBe(false);
});

test("parts beside the session's own cookie are left over, but where a service takes them first", () => {
  expect(cookieValue("sid=a; sid_0=b; sid_1=c", "sid")).toBe("a");
  const hidden = [
    "sid=a; sid_0=b; sid_chunks=1",
    "sid=%a; sid_1=b",
    'sid=a"; sid_0=b',
    "sid =a; sid_0=b",
    "sid=%zz; sid__0=b",
  ];
  for (const cookies of hidden) expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, false]);
});

test("a session of mod_auth_openidc has as many parts as it says", () => {
  expect(cookieValue("sid_chunks=2; sid_0=a; sid_1=b", "sid")).toBe("ab");
  for (const number of ["1", "3", "02", "+2", "2%20", ""])
    expect([number, cookieValue(`sid_chunks=${number}; sid_0=a; sid_1=b`, "sid")]).toEqual([number, false]);
  expect(cookieValue("sid_chunks=2", "sid")).toBeUndefined();
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

test("an encrypted token in cookies that only Auth.js takes for its own is not absent", () => {
  const name = "__Secure-authjs.session-token";
  for (const cookies of [`${name}x=${jwe}`, `${name}-a=${jwe.slice(0, 30)}; ${name}-b=${jwe.slice(30)}`])
    expect([cookies, cookieValue(cookies, name)]).toEqual([cookies, false]);
  expect(cookieValue(`${name}.0=${jwe.slice(0, 30)}; ${name}x=${jwe.slice(30)}`, name)).toBe(false);
  expect(cookieValue(`${name}.0=${jwe.slice(0, 30)}; ${name}_5=${jwe.slice(30)}`, name)).toBe(false);
  expect(cookieValue(`${name}.0=${jwe.slice(0, 30)}; ${name}.1=${jwe.slice(30)}`, name)).toBe(jwe);
  // A token to refresh another one may come alone.
  expect(cookieValue(`sid_refresh=${jwe}`, "sid")).toBeUndefined();
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
  expect(cookieValue(`sid=chunks:2; ${chunks}`, "sid")).toBe(first + rest);
  for (const other of ["sidc1=other", "SIDC1=other", "%73idC1=other", "sidC%31=other", "sidC1 =other"])
    expect([other, cookieValue(`sid=chunks-2; ${chunks}; ${other}`, "sid")]).toEqual([other, false]);
  for (const other of ["sidC3=left", "sidCsrf=x", "sidcsrf=x", "sidC=x"])
    expect([other, cookieValue(`sid=chunks-2; ${chunks}; ${other}`, "sid")]).toEqual([other, first + rest]);
  expect(cookieValue("sid=chunks-1; SIDC1=other", "sid")).toBe(false);
  // A chunk is taken as it is.
  expect(cookieValue("sid=chunks-1; sidC1=chunks-1; sidC1C1=x", "sid")).toBe("chunks-1");
});

describe("a cookie that servers begin or end in different places", () => {
  /** ASP.NET Core, WebOb, Plack and nginx begin a cookie behind some of these. */
  const ofNoName = [..."(),/:<=>?@[]{}\\", '"', "\u0080"];

  it("is ambiguous: one whose name is behind a character that no name may have", () => {
    for (const character of ofNoName) {
      for (const [begin, name] of ["a", "a=1", ""].flatMap((begin) =>
        ["sid", "sid ", "SID", "%73id", "s%69D"].map((name) => [begin, name]),
      )) {
        const hidden = `${begin}${character}${name}=real`;
        for (const cookies of [
          hidden,
          `sid=decoy; ${hidden}`,
          `${hidden}; sid=decoy`,
          `sid=decoy; ${hidden.replace(character, `${character} `)}`,
        ])
          expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, false]);
      }
    }
    expect(cookieValue("sid=decoy; a=1 SID=real", "sid")).toBe(false);
  });

  it("is another one behind a character that names may have, and without =", () => {
    for (const character of "!#$%&'*+-.^_`|~xX9") {
      for (const name of ["sid", "SID"]) {
        const cookies = `sid=alice; a=1${character}${name}=x`;
        expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, "alice"]);
      }
    }
    for (const other of ["a=1,sid", "a=1,sids=2", "a=1,SIDS=2", "a=x,y; b=[1,2]", "sids,=1"])
      expect([other, cookieValue(`sid=alice; ${other}`, "sid")]).toEqual([other, "alice"]);
  });

  it("is ambiguous: a value with a comma or brackets, unless they are percent-encoded", () => {
    for (const character of ",[]") {
      for (const value of [`alice${character}1`, `alice${character}`, `${character}alice`])
        for (const cookies of [
          `sid=${value}`,
          `sid="${value}"`,
          `sid_0=al; sid_1=${value}`,
          `sid=chunks-1; sidC1=${value}`,
        ])
          expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, false]);
      expect(cookieValue(`sid=alice${encodeURIComponent(character)}1`, "sid")).toBe(`alice${character}1`);
    }
    // Sessions of Express, and base64.
    for (const value of ["s:a.b", "ab/c+d==", "2|1:0", "A!-1!2", "a~b", "user@host", "{a:b}"])
      expect(cookieValue(`sid=${value}`, "sid")).toBe(value);
  });

  it("is ambiguous: a chunk behind a character that no name may have", () => {
    for (const character of ofNoName) {
      for (const name of ["sidC1", "SIDC1", "sidc1"]) {
        for (const cookies of [
          `sid=chunks-1; sidC1=decoy; a${character}${name}=real`,
          `a=1${character}${name}=real; sid=chunks-1; sidC1=decoy`,
        ])
          expect([cookies, cookieValue(cookies, "sid")]).toEqual([cookies, false]);
      }
    }
  });

  it("is ambiguous beside one whose name has a prefix, which Sanic takes first", () => {
    for (const prefix of ["__Host-", "__Secure-"]) {
      expect(cookieValue(`sid=decoy; ${prefix}sid=real`, "sid")).toBe(false);
      expect(cookieValue(`${prefix}sid=real;sid=decoy`, "sid")).toBe(false);
      expect(cookieValue(`${prefix}sid=real`, "sid")).toBeUndefined();
      expect(cookieValue(`${prefix}sid=real; sid=other`, `${prefix}sid`)).toBe("real");
    }
    expect(cookieValue("sid=alice; Host-sid=x; x-sid=y", "sid")).toBe("alice");
  });

  it("is ambiguous with a quote at one end alone, more than one at an end, or blanks in quotes", () => {
    for (const value of [
      '"alice',
      'alice"',
      '""alice"',
      '"alice""',
      '""alice""',
      '"',
      '"""',
      '" alice"',
      '"alice "',
      '"\talice"',
      '"alice" "',
    ])
      expect([value, cookieValue(`sid=${value}`, "sid")]).toEqual([value, false]);
    for (const value of ['"alice"', ' "alice"', '"alice"\t']) expect(cookieValue(`sid=${value}`, "sid")).toBe("alice");
    expect(cookieValue('sid=""', "sid")).toBe("");
  });

  it("is ambiguous if Express reads it as JSON, which one text has many spellings in", () => {
    for (const value of ["j:%22alice%22", "j:%20%22alice%22", "j:1", "%6a:1", '"j:1"', "j%3A1"])
      expect([value, cookieValue(`sid=${value}`, "sid")]).toEqual([value, false]);
    for (const value of ["j", "js:1", "s:j:1"]) expect(cookieValue(`sid=${value}`, "sid")).toBe(value);
  });
});

test("what is encoded in a cookie is no control character, and no blank at an end", () => {
  const odd = ["%0a", "%00", "%0d%0a", "%1f", "%7f", "%C2%A0", "%E2%80%8B", "%22%0a"];
  for (const code of odd) {
    expect([code, cookieValue(`sid=alice${code}`, "sid")]).toEqual([code, false]);
    expect([code, cookieValue(`sid=${code}alice`, "sid")]).toEqual([code, false]);
    expect([code, cookieValue(`sid_0=alice${code}; sid_1=x`, "sid")]).toEqual([code, false]);
  }
  for (const code of ["%0a", "%00", "%09", "%7f"])
    expect([code, cookieValue(`sid=al${code}ice`, "sid")]).toEqual([code, false]);
  expect(cookieValue("sid=%09alice%20", "sid")).toBe("alice");
  // Values are JSON to many services.
  expect(cookieValue("sid=%7B%22a%22%3A%22%5C%22%22%7D", "sid")).toBe('{"a":"\\""}');
});
