// Keys of clients and ids of consumers as the console shows them: what is read is what is there.

import { expect, it } from "vitest";
import { visible } from "../../console/src/parts/visible.ts";

it.each([
  ["\u202emoc.evil", "[U+202E]moc.evil"],
  ["alice\u200b", "alice[U+200B]"],
  ["al\u00adice", "al[U+00AD]ice"],
  ["\ufeffalice", "[U+FEFF]alice"],
  ["\u3164", "[U+3164]"],
  ["a\u2028b\u0007", "a[U+2028]b[U+0007]"],
  ["\u{e0061}lice", "[U+E0061]lice"],
  ["\u2066a\u2069", "[U+2066]a[U+2069]"],
])("shows the invisible characters of %j", (text, shown) => expect(visible(text)).toBe(shown));

it("keeps letters from right to left from turning what is around them", () => {
  expect(visible("אליס")).toBe("\u2068אליס\u2069");
  expect(visible("عمر\u202e")).toBe("\u2068عمر[U+202E]\u2069");
});

it.each(["alice", "Ünal", "日本", "a b", "🙂"])("leaves %j as it is", (text) => expect(visible(text)).toBe(text));
