import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byteLength, cutToBytes } from "../../../limiter/src/basics/byte-length.ts";

const texts = fc.string({ unit: "grapheme", maxLength: 30 }).map((text) => text.toWellFormed());

describe("a text's length in bytes", () => {
  test("is that of its UTF-8", () => {
    expect(["", "a", "é", "€", "😀", "\0"].map(byteLength)).toEqual([0, 1, 2, 3, 4, 1]);
    expect(["\u007f", "\u0080", "\u07ff", "\u0800", "\uffff"].map(byteLength)).toEqual([1, 2, 2, 3, 3]);
    expect(["\u{10000}", "\u{103ff}", "\u{10fc00}", "\u{10ffff}"].map(byteLength)).toEqual([4, 4, 4, 4]);
    fc.assert(
      fc.property(texts, (text) => {
        expect(byteLength(text)).toBe(Buffer.byteLength(text));
      }),
    );
  });
});

describe("a text cut to a number of bytes", () => {
  test("is as long as fits, and ends with a whole character", () => {
    expect(cutToBytes("a€b", 3)).toBe("a");
    expect(cutToBytes("a€b", 4)).toBe("a€");
    expect([4, 5, 6, 7, 8].map((bytes) => cutToBytes("a😀😀", bytes))).toEqual(["a", "a😀", "a😀", "a😀", "a😀"]);
    expect(["\u{10000}", "\u{10ffff}"].map((character) => cutToBytes(`a${character}`, 3))).toEqual(["a", "a"]);
    expect(cutToBytes("abc", 0)).toBe("");
  });

  test("is the text if it fits, and otherwise less than a character shorter than allowed", () => {
    fc.assert(
      fc.property(texts, fc.nat(60), (text, maxBytes) => {
        const cut = cutToBytes(text, maxBytes);
        expect(text.startsWith(cut)).toBe(true);
        expect(cut.isWellFormed()).toBe(true);
        expect(byteLength(cut)).toBeLessThanOrEqual(maxBytes);
        if (byteLength(text) <= maxBytes) expect(cut).toBe(text);
        else expect(byteLength(cut)).toBeGreaterThan(maxBytes - 4);
      }),
      { numRuns: 1_000 },
    );
  });
});
