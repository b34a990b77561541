import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { claimText, payloadOf } from "../../../limiter/src/key/jwt-claim.ts";

describe("the payload of a token", () => {
  test("is the text between its two dots", () => {
    expect(payloadOf("aa.bb.cc")).toBe("bb");
    expect(payloadOf(".bb.")).toBe("bb");
  });

  test.each(["", "aa", "aa.bb", "aa..cc", "a.b.c.d.e"])("is absent from %j", (token) =>
    expect(payloadOf(token)).toBeUndefined(),
  );

  test("has at most 8 KB", () => {
    const token = (bytes: number) => `h.${Buffer.alloc(bytes, "a").toString("base64url")}.s`;
    expect(payloadOf(token(8192))).toHaveLength(10923);
    expect(payloadOf(token(8193))).toBeUndefined();
  });

  test("is found or absent, and reading never throws", () => {
    fc.assert(fc.property(fc.string(), (text) => payloadOf(text)?.includes(".") !== true));
  });
});

describe("a claim", () => {
  test("is a text as it is, or an integer in digits", () => {
    const payload = { sub: "alice", empty: "", id: 42, zero: 0, minus: -7, large: 9007199254740991 };
    const texts = Object.keys(payload).map((name) => claimText(payload, name));
    expect(texts).toEqual(["alice", "", "42", "0", "-7", "9007199254740991"]);
  });

  test("of an integer is written to the last digit", () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (id) => {
        expect(claimText({ id }, "id")).toBe(`${id === 0 ? 0 : id}`);
      }),
    );
  });

  test("of any other kind counts as absent", () => {
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

  test("with dots in its name is that claim, or else the one within an object", () => {
    expect(claimText({ realm: { id: "a" } }, "realm.id")).toBe("a");
    expect(claimText({ realm: { id: "a" }, "realm.id": "b" }, "realm.id")).toBe("b");
    expect(claimText({ "https://example.org/tenant": "t" }, "https://example.org/tenant")).toBe("t");
    expect(claimText({ realm: { "id.x": "a" } }, "realm.id.x")).toBe("a");
    expect(claimText({ realm: { id: { x: "a" } } }, "realm.id.x")).toBeUndefined();
    expect(claimText({ realm: "a" }, "realm.id")).toBeUndefined();
  });
});
