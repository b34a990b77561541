// Ranges, defaults, versions and counts that both the docs and the code say. A page that says another one misleads whoever relies on it.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import {
  maxBodyBytes,
  maxDepth,
  maxFields,
  maxManyBytes,
  maxStrangersBytes,
  maxValues,
} from "../../control-plane/src/bodies/bounds.ts";
import { boundsOf } from "../../control-plane/src/bounds/bounds.ts";
import { ownNewestStep } from "../../control-plane/src/storage/schema/migrations.ts";
import { algorithms, limitsShape, policyShape } from "../../limiter/src/document/policy-shape.ts";
import type { Field, Shape } from "../../limiter/src/document/shape.ts";
import { protocolVersion } from "../../limiter/src/protocol/push-messages.ts";
import vitestConfig from "../../vitest.config.ts";

const project = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(project, path), "utf8");
const numberWords = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/** @returns the section under the heading, up to the next heading */
function section(page: string, heading: string): string {
  const text = read(page);
  const start = text.indexOf(`\n${heading}\n`);
  expect(start, `${page}: ${heading}`).toBeGreaterThanOrEqual(0);
  const rest = text.slice(start + heading.length + 2);
  const end = rest.search(/^#+ /m);
  return end < 0 ? rest : rest.slice(0, end);
}

/** @returns the cells of each row of tables, after its head */
function rows(markdown: string): string[][] {
  return [...markdown.matchAll(/^\|(.*)\|$/gm)]
    .map(([, cells]) => (cells as string).split(/(?<!\\)\|/).map((cell) => cell.trim()))
    .filter(([first = ""]) => first.startsWith("`"));
}

const namesIn = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name as string);

describe("docs/policies.md", () => {
  /** Texts without quotes, thousands' commas and typographic signs. */
  const plain = (text: string) =>
    text
      .replaceAll("`", "")
      .replaceAll("−", "-")
      .replaceAll(/(?<=\d),(?=\d{3})/g, "");

  /** @returns the texts of which one must be in the cell; nothing if the shape has no range */
  function rangesOf(shape: Shape): string[] {
    if (shape.kind === "integer" || shape.kind === "duration") return [`${shape.min} … ${shape.max}`];
    if (shape.kind === "list" || shape.kind === "map") {
      return [`${shape.minItems} to ${shape.maxItems}`, ...(shape.minItems === 0 ? [`at most ${shape.maxItems}`] : [])];
    }
    if (shape.kind === "either") {
      const ranged = shape.of.find(({ kind }) => kind === "integer" || kind === "duration");
      return ranged === undefined ? [] : rangesOf(ranged);
    }
    return [];
  }

  const fieldsOf = (shape: Shape) => (shape as Shape & { kind: "record" }).fields;
  const inOnLimit = fieldsOf(policyShape.fields["onLimit"]?.shape as Shape);
  const schedule = fieldsOf(policyShape.fields["schedule"]?.shape as Shape);
  const tables: [heading: string, fields: Readonly<Record<string, Field>>, elsewhere: readonly string[]][] = [
    ["## Fields", policyShape.fields, []],
    // The burst, the kind of window and the window bound these more closely than the shape does.
    ["### limits", fieldsOf((limitsShape as Shape & { kind: "list" }).of), ["initial", "anchor", "precision"]],
    ["### match", fieldsOf(policyShape.fields["match"]?.shape as Shape), ["hosts", "paths", "methods"]],
    ["### schedule", schedule, []],
  ];

  it.each(tables)("%s has the range of each field", (heading, fields, elsewhere) => {
    const cells = new Map(rows(section("docs/policies.md", heading)).map(([name = "", value = ""]) => [name, value]));
    let compared = 0;
    for (const [name, { shape }] of Object.entries(fields)) {
      const ranges = rangesOf(shape);
      if (ranges.length === 0 || elsewhere.includes(name)) continue;
      const cell = plain(cells.get(`\`${name}\``) ?? "(no row)");
      expect(
        ranges.some((range) => cell.includes(range)),
        `${name}: ${cell}, expected ${ranges}`,
      ).toBe(true);
      compared += 1;
    }
    expect(compared).toBeGreaterThan(0);
  });

  it("has the default of each field that always has the same", () => {
    for (const heading of ["## Fields", "### limits"]) {
      const fields =
        heading === "## Fields" ? policyShape.fields : fieldsOf((limitsShape as Shape & { kind: "list" }).of);
      for (const [name = "", , absent = ""] of rows(section("docs/policies.md", heading))) {
        const field = fields[namesIn(name)[0] as string];
        if (field?.default === undefined || field.default === "") continue;
        const shown = typeof field.default === "object" ? JSON.stringify(field.default) : `${field.default}`;
        expect(absent.replaceAll("`", ""), name).toBe(shown);
      }
    }
  });

  it("has the ranges and defaults of onLimit", () => {
    const text = section("docs/policies.md", "### onLimit");
    for (const [name, { shape, default: byDefault, description }] of Object.entries(inOnLimit)) {
      const [range] = shape.kind === "integer" || shape.kind === "duration" ? rangesOf(shape) : [];
      if (range === undefined) continue;
      const usual = byDefault ?? /Absent: (\d+)/.exec(description)?.[1];
      expect(plain(text)).toContain(`${name} ${range}${usual === undefined ? "" : ` (${usual})`}`);
    }
  });
});

describe("settings", () => {
  interface Known {
    readonly name: string;
    readonly usual: string;
    readonly range: readonly [string, string] | undefined;
  }
  const plainNumber = (text: string) => text.replaceAll(/(?<=\d)[_,](?=\d{3})/g, "");

  /** @returns what the code reads, as far as it is written beside the name of the variable */
  function known(file: string): Known[] {
    const code = read(file);
    const whole =
      /\b(?:readWhole\(environment|whole\(|port\(|readPort\(environment|readAllowance\(environment),?\s*"(SLUICE_\w+)",\s*("[^"]*"|[\d_]+)(?:, ([\d_]+), ([\d_]+)\))?/g;
    const described = /\bread(?:<[^>]*>)?\(\s*"(SLUICE_\w+)",\s*("[^"]*"|[\d_]+|\w+),\s*"([^"]*)"/g;
    return [
      ...[...code.matchAll(whole)].map(([, name = "", usual = "", min, max]) => ({
        name,
        usual,
        range: min === undefined || max === undefined ? undefined : ([min, max] as const),
      })),
      ...[...code.matchAll(described)].map(([, name = "", usual = "", expected = ""]) => {
        const [, min, max] = /from (\d+) to (\d+)/.exec(expected) ?? [];
        return { name, usual, range: min === undefined || max === undefined ? undefined : ([min, max] as const) };
      }),
    ];
  }

  it.each([
    ["launch/settings.ts", "docs/operations.md", "## Settings", 12],
    ["control-plane/src/configuration.ts", "docs/operations.md", "## Settings", 12],
    ["rls/src/settings.ts", "docs/envoy.md", "## Settings", 6],
  ])("of %s have their defaults and ranges in %s", (file, page, heading, least) => {
    const documented = new Map(
      rows(section(page, heading)).flatMap(([names = "", usual = "", meaning = ""]) => {
        const usuals = plainNumber(usual).split(", ");
        return namesIn(names).map(
          (name, i) => [name, { usual: usuals[i] ?? "", meaning: plainNumber(meaning) }] as const,
        );
      }),
    );
    let compared = 0;
    for (const { name, usual, range } of known(file)) {
      const row = documented.get(name);
      expect(row, name).toBeDefined();
      if (row === undefined) continue;
      if (/^["\d]/.test(usual)) {
        expect([name, row.usual.replaceAll("`", "")]).toEqual([name, plainNumber(usual).replaceAll('"', "")]);
        compared += 1;
      }
      if (range === undefined || range.map(plainNumber).join() === "0,65535") continue;
      const [min, max] = range.map(plainNumber);
      const shown = /(?:from )?\b(\d+) to (\d+)\b/.exec(row.meaning);
      if (shown !== null) expect(row.meaning, name).toContain(`${min} to ${max}`);
    }
    expect(compared).toBeGreaterThanOrEqual(least);
  });
});

it("docs/rest.md has the bounds of an app", () => {
  const bounds = boundsOf("shop", undefined, { policies: 0, steps: 0, snapshotBytes: 0 });
  const documented = rows(section("docs/rest.md", "## Apps and their bounds")).flatMap(([names = "", usual = ""]) =>
    namesIn(names).map((name, i) => [name, Number(usual.replace(/ \(.*/, "").split(", ")[i]?.replaceAll(",", ""))]),
  );
  expect(Object.fromEntries(documented)).toEqual(bounds);
});

it("docs/rest.md has the bounds of a body", () => {
  const table = section("docs/rest.md", "## Request bodies");
  const mib = maxManyBytes / 1024 / 1024;
  expect(table).toContain(
    `| size | at most ${maxBodyBytes / 1024} KiB; [many policies at once](#many-policies-at-once) at most ${mib} MiB; \`POST /session\` at most ${maxStrangersBytes / 1024} KiB |`,
  );
  expect(table).toContain(`at most ${maxDepth} deep |`);
  expect(table).toContain(`at most ${maxFields.toLocaleString("en")} in one object`);
  expect(table).toContain(`| values | at most ${maxValues.toLocaleString("en")} in all |`);
});

it("docs/operations.md shows the newest schema of the database", () => {
  expect(read("docs/operations.md")).toContain(`(up to schema ${ownNewestStep})`);
});

it("docs/operations.md says which version the push protocol has", () => {
  expect(read("docs/operations.md")).toContain(`**Versions of the protocol.** This is version ${protocolVersion}.`);
});

it("README.md counts the algorithms", () => {
  const word = numberWords[algorithms.length] as string;
  expect(read("README.md")).toContain(`**${word[0]?.toUpperCase()}${word.slice(1)} algorithms**`);
});

it("README.md says which Node is needed", () => {
  const { engines } = JSON.parse(read("package.json"));
  expect(read("README.md")).toContain(`Node ${engines.node.replace(">=", "")} or newer`);
});

describe("kinds of tests", () => {
  const projects = (
    vitestConfig as { test: { projects: { test: { name: string; sequence?: { groupOrder: number } } }[] } }
  ).test.projects;
  /** The tests on several databases are one kind. */
  const kinds = new Set(projects.map(({ test: { name } }) => (name.startsWith("on ") ? "databases" : name)));

  it("are those of vitest.config.ts in CONTRIBUTING.md, and as many as both say", () => {
    const text = section("CONTRIBUTING.md", "## Tests");
    const listed = [...text.matchAll(/^\| (\w+): /gm)].map(([, name]) => name);
    expect(new Set(listed)).toEqual(kinds);
    expect(text).toContain(`into ${numberWords[kinds.size]} kinds`);
    const word = numberWords[kinds.size] as string;
    expect(read("vitest.config.ts").toLowerCase()).toMatch(new RegExp(`^// ${word} kinds of tests`));
  });
});

it("docs/console.md has every page of the console", () => {
  const words: Record<string, string> = JSON.parse(read("console/src/words/en/shell.json"));
  const shown = [...read("console/src/app/shell.tsx").matchAll(/\{ to: "[^"]+", word: "(\w+)"/g)].map(
    ([, word]) => words[word as string],
  );
  expect(shown.length).toBeGreaterThan(8);
  const listed = section("docs/console.md", "## Pages")
    .split("\n")
    .flatMap((line) =>
      [...(/^\| ([^|]+) \|/.exec(line)?.[1]?.matchAll(/\*\*([^*]+)\*\*/g) ?? [])].map(([, name]) => name),
    );
  expect(listed.sort()).toEqual(shown.sort());
});

it("docs/install.md counts the shared dicts without which nginx does not start", () => {
  const all = [...read("nginx.conf").matchAll(/lua_shared_dict (\w+)/g)].map(([, name]) => name);
  // It is needed only with planBy: consumer.
  const needed = all.filter((name) => name !== "sluice_consumers");
  expect(read("docs/install.md")).toContain(`the ${numberWords[needed.length]} dicts`);
});
