// What the validator says of a field, in Chinese.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { translatorOf } from "../../console/src/settings/expectations.ts";
import { expectations } from "../../console/src/words/zh-expectations.ts";

const vectors = JSON.parse(readFileSync(new URL("../vectors/policy-documents.json", import.meta.url), "utf8"));
const said = new Set<string>();
(function collect(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  const { path, expected } = value as { path?: unknown; expected?: unknown };
  if (typeof path === "string" && typeof expected === "string") said.add(expected);
  for (const inner of Object.values(value)) collect(inner);
})(vectors);

const translate = translatorOf(expectations);

it("translates all that the validator says of the documents that it is tested with", () => {
  expect(said.size).toBeGreaterThan(80);
  for (const text of said) expect(translate(text), text).toMatch(/[一-鿿]/);
});

it.each([
  ["an integer from 400 to 599", "400 到 599 的整数"],
  ["an integer from 1 to 16, or an object", "1 到 16 的整数，或对象"],
  ["true or false, or an object", "true 或 false；或 对象"],
  ["one of node, cluster", "以下之一：node, cluster"],
  [
    '"~" and a regular expression; at character 3 of this repeats more than 1000 times',
    '"~" 加正则表达式；其中第 3 个字符重复超过 1000 次',
  ],
  ["an object, in well-formed Unicode", "对象，且为格式正确的 Unicode"],
  ["something new", "something new"],
])("%s", (text, translation) => {
  expect(translate(text)).toBe(translation);
});
