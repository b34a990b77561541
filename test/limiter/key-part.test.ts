import { describe, expect, test } from "vitest";
import { parseKeyPart } from "../../limiter/src/key/key-part.ts";
import { readVectors } from "../parity/vectors.ts";

describe("a key part", () => {
  for (const { text, part } of readVectors("key-parts").valid) {
    test(`${JSON.stringify(text)} is ${part.source}`, () => expect(parseKeyPart(text)).toEqual(part));
  }
  for (const text of readVectors("key-parts").invalid) {
    test(`${JSON.stringify(text)} is none`, () => expect(parseKeyPart(text)).toBeUndefined());
  }

  test("may have a name of 256 bytes and no more", () => {
    for (const source of ["header", "cookie", "query", "var", "const"]) {
      expect(parseKeyPart(`${source}:${"a".repeat(256)}`)).toEqual({ source, name: "a".repeat(256) });
      expect(parseKeyPart(`${source}:${"a".repeat(257)}`)).toBeUndefined();
    }
    expect(parseKeyPart(`const:${"é".repeat(128)}`)).toEqual({ source: "const", name: "é".repeat(128) });
    expect(parseKeyPart(`const:${"é".repeat(129)}`)).toBeUndefined();
  });
});
