// What trims in Django, Laravel and Tornado, whose rules are written here as their sources have them, and in JavaScript.

import { describe, expect, it } from "vitest";
import { withoutBlanks } from "../../../limiter/src/key/blanks.ts";

const bytes = (text: string) => Buffer.from(text).toString("latin1");
const trimmed = (text: string) => Buffer.from(withoutBlanks(bytes(text)), "latin1").toString();
const every = Array.from({ length: 0x110000 }, (_, code) => code)
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code));

/** Str::INVISIBLE_CHARACTERS of Laravel, without those that are also white space: first and last ones. */
const invisible = [
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180e, 0x180e],
  [0x200b, 0x200f],
  [0x2060, 0x2065],
  [0x206a, 0x206f],
  [0x2800, 0x2800],
  [0x3164, 0x3164],
  [0xffa0, 0xffa0],
  [0x1d159, 0x1d159],
  [0x1d173, 0x1d17a],
  [0xe0020, 0xe0020],
] as const;
/** Beside control characters, Python calls these spaces. */
const ofPython = /\x85|\p{Zs}|\p{Zl}|\p{Zp}/u;

describe("blanks around a value", () => {
  it("are left out, whichever of them Django, Laravel, Tornado or JavaScript leaves out, and no other character is", () => {
    const isBlank = (one: string) => {
      const code = one.codePointAt(0) as number;
      return (
        code < 32 ||
        one.trim() === "" ||
        ofPython.test(one) ||
        invisible.some(([first, last]) => code >= first && code <= last)
      );
    };
    const differing = every.filter((one) => trimmed(`${one}ann${one}`) !== (isBlank(one) ? "ann" : `${one}ann${one}`));
    expect(differing.map((one) => one.codePointAt(0)?.toString(16))).toEqual([]);
  });

  it.each([
    ["ann", "ann"],
    ["  ann", "ann"],
    ["ann\t\r\n", "ann"],
    [" \u3000ann smith\u00a0 ", "ann smith"],
    ["\ufeff é \u200b", "é"],
    ["é", "é"],
    ["", ""],
    [" ", ""],
    [" \u00a0\u{1d173}\t", ""],
    ["a", "a"],
    ["\u3000", ""],
  ])("%j is %j", (written, read) => {
    expect(trimmed(written)).toBe(read);
  });

  it.each([
    ["ann\xa0", "ann"],
    ["\x85 \xa0ann\xa0\x85\x85", "ann"],
    ["voil\xc3\xa0", "voil\xc3\xa0"],
    ["voil\xc3\x85 ", "voil\xc3\x85"],
    ["voil\xc3\xa0\xa0", "voil\xc3\xa0"],
    ["ann\xc2\xa0", "ann"],
    ["\xc2 ann", "\xc2 ann"],
    ["ann\xe2\x80", "ann\xe2\x80"],
    ["\xa0", ""],
    ["\xe3\x80", "\xe3\x80"],
  ])("are bytes of Latin-1 that are part of no character in UTF-8: %j is %j", (written, read) => {
    expect(withoutBlanks(written)).toBe(read);
  });
});
