// What the text editor offers while one types.

import { expect, it } from "vitest";
import { suggestionsAt } from "../../console/src/pages/policies/editor/completions.ts";

const at = (text: string) => {
  const { from, suggestions } = suggestionsAt(text, text.length);
  return { typed: text.slice(from), offered: suggestions.map((one) => one.text) };
};

it("offers the policy's fields, with their meaning", () => {
  expect(at("na").typed).toBe("na");
  expect(at("na").offered).toEqual(expect.arrayContaining(["name", "match", "limits", "onLimit"]));
  expect(suggestionsAt("", 0).suggestions.find(({ text }) => text === "scope")?.meaning).toMatch(/Redis/);
});

it("offers the fields of what the line is in", () => {
  expect(at("name: a\nmatch:\n  pa").offered).toEqual(["hosts", "paths", "methods", "headers"]);
  const inLimit = at("limits:\n  - algorithm: fixed-window\n    quo").offered;
  expect(inLimit).toContain("quota");
  expect(inLimit).not.toContain("match");
  expect(at("limits:\n  - ").offered).toContain("algorithm");
  expect(at("limits:\n- algorithm: fixed-window\n  quo").offered).toContain("quota");
  expect(at("schedule:\n  windows:\n    - fr").offered).toEqual(["days", "from", "to"]);
});

it("offers the values that a field may have", () => {
  expect(at("mode: sh")).toEqual({ typed: "sh", offered: ["enforce", "shadow", "off"] });
  expect(at("limits:\n  - algorithm: ").offered).toContain("sliding-log");
  expect(at("onLimit:\n  action: ").offered).toEqual(["reject", "delay", "degrade", "tag"]);
});

it("offers nothing where it cannot know", () => {
  expect(at("name: books").offered).toEqual([]);
  expect(at("nothing:\n  like: ").offered).toEqual([]);
  expect(at("match: { pa").offered).toEqual([]);
});
