import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bearerPayload, claimText } from "../../limiter/src/key/jwt-claim.ts";

describe("the payload of a bearer token", () => {
  test("is what stands between its two dots, whatever the case of the scheme", () => {
    for (const scheme of ["Bearer", "bearer", "BEARER"]) expect(bearerPayload(`${scheme} aa.bb.cc`)).toBe("bb");
    expect(bearerPayload("Bearer .bb.")).toBe("bb");
  });

  test.each([
    "",
    "Bearer",
    "Bearer ",
    "Bearer aa",
    "Bearer aa.bb",
    "Bearer aa..cc",
    "Bearer a.b.c.d.e",
    "Basic aa.bb.cc",
    "Bearer:aa.bb.cc",
    " Bearer aa.bb.cc",
    "aa.bb.cc",
  ])("is none in %j", (authorization) => expect(bearerPayload(authorization)).toBeUndefined());

  test("is of at most 8 KB", () => {
    const token = (bytes: number) => `Bearer h.${Buffer.alloc(bytes, "a").toString("base64url")}.s`;
    expect(bearerPayload(token(8192))).toHaveLength(10923);
    expect(bearerPayload(token(8193))).toBeUndefined();
  });

  test("is found or not, and never throws", () => {
    fc.assert(fc.property(fc.string(), (text) => bearerPayload(`Bearer ${text}`)?.includes(".") !== true));
  });
});

describe("a claim", () => {
  test("is a text as it is, or an integer in digits", () => {
    const payload = { sub: "alice", empty: "", id: 42, zero: 0, minus: -7, large: 9007199254740991 };
    const texts = Object.keys(payload).map((name) => claimText(payload, name));
    expect(texts).toEqual(["alice", "", "42", "0", "-7", "9007199254740991"]);
  });

  test("is written to the last digit", () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (id) => {
        expect(claimText({ id }, "id")).toBe(`${id === 0 ? 0 : id}`);
      }),
    );
  });

  test("that is anything else counts as absent", () => {
    for (const sub of [null, true, 1.5, 9007199254740992, -9007199254740992, Number.NaN, Infinity, [], ["a"], {}]) {
      expect(claimText({ sub }, "sub")).toBeUndefined();
    }
    for (const payload of [undefined, null, "sub", 5, true, [], ["a"]]) {
      expect(claimText(payload, "sub")).toBeUndefined();
      expect(claimText(payload, "length")).toBeUndefined();
    }
  });

  test("is not what a JavaScript object inherits", () => {
    for (const name of ["constructor", "toString", "__proto__", "constructor.name", "__proto__.constructor.name"]) {
      expect(claimText({}, name)).toBeUndefined();
    }
  });

  test("of a name with dots is that claim, or else the one within an object", () => {
    expect(claimText({ realm: { id: "a" } }, "realm.id")).toBe("a");
    expect(claimText({ realm: { id: "a" }, "realm.id": "b" }, "realm.id")).toBe("b");
    expect(claimText({ "https://example.org/tenant": "t" }, "https://example.org/tenant")).toBe("t");
    expect(claimText({ realm: { "id.x": "a" } }, "realm.id.x")).toBe("a");
    expect(claimText({ realm: { id: { x: "a" } } }, "realm.id.x")).toBeUndefined();
    expect(claimText({ realm: "a" }, "realm.id")).toBeUndefined();
  });
});
