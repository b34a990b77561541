// The console says everything in each of its languages.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import en from "../../console/src/words/en.ts";
import zh from "../../console/src/words/zh.ts";

type Words = { readonly [name: string]: string | Words };

function flat(of: Words, path = ""): [string, string][] {
  return Object.entries(of).flatMap(([name, word]): [string, string][] =>
    typeof word === "string" ? [[path + name, word]] : flat(word, `${path + name}.`),
  );
}

const english = new Map(flat(en));
const chinese = new Map(flat(zh));

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

it("no message is left that nothing says", () => {
  const root = join(import.meta.dirname, "../../console/src");
  const sources = globSync("**/*.{ts,tsx}", { cwd: root }).map((file) => readFileSync(join(root, file), "utf8"));
  const text = sources.join("\n");
  // A message is named whole, or by a list of names; one that is chosen by a value is named by what is before the value.
  const isSaid = (path: string) => {
    const [, ...names] = path.split(".");
    return names.some((_, i) => {
      const whole = names.slice(i).join(".");
      return (
        text.includes(`"${whole}"`) || text.includes(`${whole}:`) || text.includes(`\`${names.slice(0, i).join(".")}.`)
      );
    });
  };
  expect([...english.keys()].filter((path) => !isSaid(path))).toEqual([]);
});
