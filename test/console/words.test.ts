// The console says everything in each of its languages.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const words = join(import.meta.dirname, "../../console/src/words");
type Words = { readonly [name: string]: string | Words };
const read = (language: string) => JSON.parse(readFileSync(join(words, `${language}.json`), "utf8")) as Words;

function flat(of: Words, path = ""): [string, string][] {
  return Object.entries(of).flatMap(([name, word]): [string, string][] =>
    typeof word === "string" ? [[path + name, word]] : flat(word, `${path + name}.`),
  );
}

const english = new Map(flat(read("en")));
const chinese = new Map(flat(read("zh")));

it("both languages have the same messages, and no empty one", () => {
  expect([...chinese.keys()]).toEqual([...english.keys()]);
  for (const text of [...english.values(), ...chinese.values()]) expect(text.trim()).not.toBe("");
});

it("a message of Chinese names no value that the English one does not", () => {
  const valuesOf = (text: string) => new Set([...text.matchAll(/\{(\w+)/g)].map(([, name]) => name));
  for (const [name, text] of chinese) {
    const known = valuesOf(english.get(name) ?? "");
    expect([...valuesOf(text)].filter((value) => !known.has(value) && !/^(one|other)$/.test(value ?? ""))).toEqual([]);
  }
});
