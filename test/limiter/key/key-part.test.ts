import { describe, expect, test } from "vitest";
import { type KeyPart, keyPartText, parseKeyPart, readsForm } from "../../../limiter/src/key/key-part.ts";
import { readVectors } from "../../parity/vectors.ts";

describe("a key part", () => {
  for (const { text, part } of readVectors("key-parts").valid) {
    test(`${JSON.stringify(text)} is ${part.source}`, () => expect(parseKeyPart(text)).toEqual(part));
  }
  for (const text of readVectors("key-parts").invalid) {
    test(`${JSON.stringify(text)} is none`, () => expect(parseKeyPart(text)).toBeUndefined());
  }

  test("may name a header by all letters, digits and marks that nginx knows in a token, a variable by those of a word", () => {
    for (const name of ["0", "9", "a", "z", "_", "-", ".", "!", "~"]) {
      expect(parseKeyPart(`header:${name}`)).toEqual({ source: "header", name });
    }
    expect(parseKeyPart("header:AZ")).toEqual({ source: "header", name: "az" });
    for (const name of ["0", "9", "A", "Z", "a", "z", "_"]) {
      expect(parseKeyPart(`var:${name}`)).toEqual({ source: "var", name });
    }
    for (const name of ["/", ":", "@", "[", "`", "{", " "]) {
      expect(parseKeyPart(`header:a${name}`)).toBeUndefined();
      expect(parseKeyPart(`var:a${name}`)).toBeUndefined();
    }
    expect(parseKeyPart("ip/9/19")).toEqual({ source: "ip", v4Bits: 9, v6Bits: 19 });
    for (const none of ["ip/24", "ip/2:/56", "ip/24/5:", "ip/24/", ":a"]) expect(parseKeyPart(none)).toBeUndefined();
  });

  test("may have a name of 256 bytes and no more", () => {
    for (const source of ["header", "cookie", "query", "form", "jwt", "var", "const"]) {
      expect(parseKeyPart(`${source}:${"a".repeat(256)}`)).toEqual({ source, name: "a".repeat(256) });
      expect(parseKeyPart(`${source}:${"a".repeat(257)}`)).toBeUndefined();
    }
    expect(parseKeyPart(`const:${"é".repeat(128)}`)).toEqual({ source: "const", name: "é".repeat(128) });
    expect(parseKeyPart(`const:${"é".repeat(129)}`)).toBeUndefined();
  });

  test("is written as the policy has it", () => {
    for (const { text, part } of readVectors("key-parts").valid) {
      expect(parseKeyPart(keyPartText(part as KeyPart)), text).toEqual(part);
    }
  });
});

describe("a key reads a form", () => {
  const reads = (...texts: string[]) => readsForm(texts.map((text) => parseKeyPart(text) as KeyPart));
  test("if any of its parts does", () => {
    expect(reads()).toBe(false);
    expect(reads("ip", "query:form", "header:form")).toBe(false);
    expect(reads("form:account")).toBe(true);
    expect(reads("ip", "form:account")).toBe(true);
  });
});
