// What is supplied by name (control-plane/library): each file is valid as it stands, says in words what it does, and is a recipe in
// docs/policies.md, which shows the policy that it makes.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { library } from "../../control-plane/src/library/supplied.ts";
import { validatePut } from "../../control-plane/src/policies/validate-policy.ts";

const project = join(import.meta.dirname, "../..");
const context = {
  app: { name: "default", realm: { state: "legacy" } },
  forAllApps: false,
} as unknown as Parameters<typeof validatePut>[4];
/** As an editor of an app puts it, where there is Redis. */
const put = (document: unknown) => validatePut(document, undefined, true, new Map(), context);

const all = [...library.values()];
const limits = [{ algorithm: "token-bucket", quota: 100, window: "1s" }];

it("has each file under its own name", () => {
  const files = readdirSync(join(project, "control-plane/library"));
  expect(files.sort()).toEqual(all.map(({ name }) => `${name}.yaml`).sort());
});

describe.each(all)("$name", ({ name, kind, document, title, description, translations, ...others }) => {
  it("is valid in every app as it stands, once a policy adds what it matches", () => {
    const match = { paths: ["/somewhere"] };
    const own = kind === "policy" ? { template: name, match } : { limits, match, onLimit: { template: name } };
    const { problems, document: stored } = put({ name: "books", ...own });
    expect(problems).toEqual([]);
    const merged = { ...(document["match"] as object | undefined), ...match };
    expect(stored).toEqual({ name: "books", ...(kind === "policy" ? {} : { limits }), ...document, match: merged });
    expect(put(stored).problems).toEqual([]);
  });

  it("has the fields of its kind alone", () => {
    expect(others).toEqual({});
    if (kind === "action") expect(Object.keys(document)).toEqual(["onLimit"]);
    else expect(Object.keys(document)).toEqual(expect.not.arrayContaining(["name", "template", "description", "mode"]));
  });

  it("says in both languages what it is for, what the client sees, and what to change", () => {
    const [purpose, sees, change, ...more] = description.trimEnd().split("\n");
    expect(purpose).toMatch(/^Use it /);
    expect(sees).toMatch(/^The client sees /);
    expect(change).toMatch(/^(Add|Change) /);
    expect(more).toEqual([]);
    const chinese = translations["zh"];
    expect(chinese?.title).toMatch(/\p{Script=Han}/u);
    expect(chinese?.description.trimEnd().split("\n")).toHaveLength(3);
    expect(title).not.toBe("");
  });

  it("names no host of anybody", () => {
    const text = readFileSync(join(project, `control-plane/library/${name}.yaml`), "utf8");
    expect(text).not.toMatch(/https?:\/\/|www\.|\.(com|org|net|io|dev)\b/);
  });
});

describe("docs/policies.md", () => {
  const recipes = readRecipes();

  it("has one recipe for each", () => {
    expect(recipes.map(({ uses }) => uses).sort()).toEqual(all.map(({ name }) => name).sort());
  });

  it.each(recipes)("shows the policy that $uses makes", ({ short, whole }) => {
    const { problems, document } = put(short);
    expect(problems).toEqual([]);
    expect(document).toEqual(whole);
  });
});

interface Recipe {
  readonly uses: unknown;
  /** As somebody puts it. */
  readonly short: Readonly<Record<string, unknown>>;
  /** As it is stored. */
  readonly whole: unknown;
}

function readRecipes(): Recipe[] {
  const text = readFileSync(join(project, "docs/policies.md"), "utf8");
  const [, section = ""] = /\n## Recipes\n(.*?)\n## /s.exec(text) ?? [];
  return section
    .split("\n### ")
    .slice(1)
    .map((recipe) => {
      const blocks = [...recipe.matchAll(/```yaml\n(.*?)```/gs)].map(([, yaml = ""]) => parse(yaml));
      expect(blocks, recipe).toHaveLength(2);
      const [short, whole] = blocks;
      return { uses: short.template ?? short.onLimit.template, short, whole };
    });
}
