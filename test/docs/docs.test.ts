// The docs name what the code has: a field, a variable, a metric or a file that only one side has is a fault of the other.

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { algorithms, policyShape } from "../../limiter/src/document/policy-shape.ts";
import type { Field } from "../../limiter/src/document/shape.ts";
import { beginningsForAdmins, namesForAdmins } from "../../limiter/src/realm/headers.ts";
import { rightsOf } from "../fixtures/documents/documented-rights.ts";

const project = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(project, path), "utf8");
const sources = (pattern: string) => globSync(pattern, { cwd: project }).map(read).join("\n");

/** @returns every `name` in the first cell of a table row */
function namesInTables(markdown: string): Set<string> {
  const names = new Set<string>();
  for (const [, cell] of markdown.matchAll(/^\| ([^|]*) \|/gm)) {
    for (const [, name] of (cell as string).matchAll(/`([^`]+)`/g)) names.add(name as string);
  }
  return names;
}

function fieldNames(fields: Readonly<Record<string, Field>>): string[] {
  return Object.entries(fields).flatMap(([name, { shape }]) => {
    const inner =
      shape.kind === "list" || shape.kind === "map" ? [shape.of] : shape.kind === "either" ? shape.of : [shape];
    return [name, ...inner.flatMap((one) => (one.kind === "record" ? fieldNames(one.fields) : []))];
  });
}

it("docs/policies.md has every field of a policy", () => {
  const text = read("docs/policies.md");
  const missing = fieldNames(policyShape.fields).filter(
    (name) => !text.includes(`\`${name}\``) && !text.includes(`\`${name}:`),
  );
  expect(missing).toEqual([]);
});

it("docs/security.md has every header that only admins may set", () => {
  const documented = /\*\*Headers for admins\..*? Names:(.*?) Beginnings of names:(.*?)Those that frame/s;
  const [, names, beginnings] = documented.exec(read("docs/security.md")) as unknown as [string, string, string];
  const quoted = (text: string) => [...text.matchAll(/`([a-z0-9-]+)…?`/g)].map(([, name]) => name);
  expect(quoted(names)).toEqual(namesForAdmins);
  expect(quoted(beginnings)).toEqual(beginningsForAdmins);
});

it("docs/policies.md's examples are policies, or limits of one", async () => {
  const { parse } = await import("yaml");
  const { validatePolicy } = await import("../../limiter/src/document/validate.ts");
  const examples = [...withoutRecipes(read("docs/policies.md")).matchAll(/```yaml\n(.*?)```/gs)].map(
    ([, example]) => example as string,
  );
  expect(examples).toHaveLength(14);
  for (const example of examples) {
    expect(validatePolicy({ name: "example", ...parse(example) }).problems, example).toEqual([]);
  }
});

it("docs/policies.md's refusals are what the validator says", async () => {
  const { validatePolicy } = await import("../../limiter/src/document/validate.ts");
  const [, shown] = /A refusal names the place:\n\n```json\n(.*?)```/s.exec(read("docs/policies.md")) ?? [];
  const expected = (shown as string)
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const paths = expected.flatMap(({ path, got }) => (path.startsWith("match.paths") ? [JSON.parse(got)] : []));
  const headers = { "X-Plan": ["free"], "x-plan": ["trial"] };
  const limits = [{ algorithm: "token-bucket", quota: 1, window: "1s" }];
  expect(validatePolicy({ name: "example", match: { paths, headers }, limits }).problems).toEqual(expected);
});

it("docs/policies.md has every algorithm, and no other", () => {
  const [, row] = /^\| `algorithm` \| ([^|]+) \|/m.exec(read("docs/policies.md")) ?? [];
  expect([...(row as string).matchAll(/`([^`]+)`/g)].map(([, name]) => name)).toEqual(algorithms);
});

describe("docs/algorithms.md", () => {
  const text = read("docs/algorithms.md");

  it("helps to choose among all algorithms, and no other", () => {
    const [, choosing] = /^## Choosing an algorithm$(.*?)^## /ms.exec(text) ?? [];
    expect([...namesInTables(choosing as string)].sort()).toEqual([...algorithms].sort());
  });

  it.each(algorithms)(
    "has a section for %s: picture, guarantee, formula, memory, use, clock, edits, refund, tests",
    (name) => {
      const [, section] = new RegExp(`^## ${name}$(.*?)^## `, "ms").exec(text) ?? [];
      expect(section).toContain(`](pictures/${name}.svg)`);
      for (const word of ["**Guarantee.**", "**Formula.**", "**Memory.**", "**Good for**", "**Not for**"]) {
        expect(section).toContain(word);
      }
      for (const word of ["clock steps back", "quota", "edited", /refund/i, "test/limiter/"]) {
        expect(section).toMatch(word);
      }
    },
  );
});

const namesFile = "limiter/src/settings/setting-names.ts";

it("docs/operations.md and the list of names have every SLUICE_ variable that the code reads, and no other", () => {
  const code =
    globSync("{launch,gateway/src,control-plane/src,rls/src}/**/*.{ts,mjs}", { cwd: project }).map(read).join("\n") +
    read("nginx.conf");
  const internal = [
    "SLUICE_MODULES",
    "SLUICE_USER",
    "SLUICE_LUA_DIR",
    "SLUICE_RESOLVER",
    "SLUICE_TRUST",
    "SLUICE_CHECK_LISTEN",
    "SLUICE_UPSTREAM_ADDRESS",
  ];
  const used = new Set([...code.matchAll(/\bSLUICE_[A-Z0-9_]*[A-Z0-9]\b/g)].map(([name]) => name));
  for (const name of internal) used.delete(name);
  const documented = [...namesInTables(read("docs/operations.md"))].filter((name) => name.startsWith("SLUICE_"));
  expect(documented.sort()).toEqual([...used].sort());
  const known = read(namesFile).match(/(?<=")SLUICE_[A-Z0-9_]*[A-Z0-9](?=")/g) ?? [];
  expect(known.sort()).toEqual([...used].sort());
});

it("docs/operations.md has every metric of the gateway, and no other", () => {
  const inCode = new Set(
    [...sources("gateway/src/private/metrics.ts").matchAll(/"(sluice_\w+)"/g)].map(([, name]) => name),
  );
  const inDocs = [...namesInTables(read("docs/operations.md"))]
    .map((name) => name.replace(/\{.*/, ""))
    .filter((name) => /^sluice_(?!control_)/.test(name));
  expect(inDocs.sort()).toEqual([...inCode].sort());
});

it("docs/dependencies.md has a line for every dependency, and no other", () => {
  const manifests = [
    "package.json",
    "console/package.json",
    "control-plane/package.json",
    "gateway/package.json",
    "limiter/package.json",
    "rls/package.json",
    "test/mutation/package.json",
  ];
  const inUse = manifests.flatMap((manifest) => {
    const { dependencies = {}, devDependencies = {}, optionalDependencies = {} } = JSON.parse(read(manifest));
    return Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies });
  });
  const [npm = ""] = read("docs/dependencies.md").split("\n## Debian");
  expect([...namesInTables(npm)].sort()).toEqual([...new Set(inUse)].sort());
});

it("docs/dependencies.md has a line for every Debian package, and no other", () => {
  const [, debian = ""] = read("docs/dependencies.md").split("\n## Debian");
  const installed = [...read("launch/system-packages.ts").matchAll(/\{ name: "([^"]+)"/g)].map(([, name]) => name);
  expect([...namesInTables(debian)].sort()).toEqual(installed.sort());
});

describe("links in the docs", () => {
  const pages = globSync("{{README,CHANGELOG,CONTRIBUTING,SECURITY}.md,{docs,bench,examples}/*.md}", { cwd: project });
  const links = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\(([^)#:]*)(?:#([^)]*))?\)/g)].map(([link, target, anchor]) => ({
      path: target === "" ? page : join(dirname(page), target as string),
      anchor,
      shown: `${page}: ${link}`,
    })),
  );

  it("lead to a file", () => {
    expect(pages.length).toBeGreaterThan(12);
    expect(links.filter(({ path }) => !existsSync(join(project, path))).map(({ shown }) => shown)).toEqual([]);
  });

  it("lead to a heading of that page, where they name one", () => {
    const toPages = links.filter(({ path, anchor }) => anchor !== undefined && path.endsWith(".md"));
    expect(toPages.length).toBeGreaterThan(50);
    expect(
      toPages.filter(({ path, anchor }) => !anchorsOf(read(path)).has(anchor as string)).map(({ shown }) => shown),
    ).toEqual([]);
  });
});

/** @returns anchors as repositories make them of headings (lower case, no punctuation, dashes for blanks), and the page's own */
function anchorsOf(markdown: string): Set<string> {
  const text = markdown.replace(/^```.*?^```$/gms, "");
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    (heading as string)
      .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, "")
      .replaceAll(" ", "-"),
  );
  return new Set([...headings, ...[...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id as string)]);
}

it("README.md's figures are those of bench/README.md", () => {
  const [, section = ""] = /^## Performance$(.*?)^## /ms.exec(read("README.md")) ?? [];
  const rows = [...section.matchAll(/^\| [^|]+(\| [\d,]+ \|.*\|)$/gm)].map(([, figures]) => figures as string);
  expect(rows).toHaveLength(8);
  const measured = read("bench/README.md");
  expect(rows.filter((figures) => !measured.includes(figures))).toEqual([]);
});

describe("rights in Redis", () => {
  it.each(["one Redis", "Sentinel", "Cluster"] as const)(
    "of the control plane are enough for a gateway too: %s",
    (deployment) => {
      expect(rightsOf(`control plane, ${deployment}`)).toEqual(expect.arrayContaining(rightsOf(deployment)));
    },
  );

  it("of README.md's fleet are those of a user that both parts share", () => {
    const [, rules] = /^user sluice on >PASSWORD (.+)$/m.exec(read("README.md")) ?? [];
    expect(rules?.split(" ")).toEqual(rightsOf("control plane, one Redis"));
  });
});

describe("words that Sluice no longer uses", () => {
  const retired =
    /\b(verdicts?|outspeaks?|receipts?|(?:give[ns]?|gave) back|giveBack\w*|lanes?|asking[- ]around|settlements?|tally|tallies|upkeep|errands?|judge[sd]?|judge?ments?|judging|ask-first)\b/i;
  const files = globSync("{limiter,gateway,control-plane,rls,launch,test,bench,docs}/**/*.{ts,mjs,lua,md,json}", {
    cwd: project,
    exclude: (name) => /node_modules|^dist$|results|package-lock|docs\.test\.ts$|^vectors$/.test(name),
  }).concat([
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "nginx.conf",
    "docker-compose.yml",
    "vitest.config.ts",
  ]);

  it("are neither in the code nor in the docs", () => {
    expect(files.length).toBeGreaterThan(500);
    const found = files.flatMap((file) =>
      readFileSync(join(project, file), "utf8")
        .split("\n")
        .flatMap((line, i) => (retired.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : [])),
    );
    expect(found).toEqual([]);
  });

  it("are replaced by at most 25 words of our own, which the architecture explains", () => {
    const section =
      readFileSync(join(project, "docs/architecture.md"), "utf8").split("\n## Words\n")[1]?.split("\n## ")[0] ?? "";
    const words = section.split("\n").filter((line) => /^\| (?!word |---)/.test(line));
    expect(words.length).toBeGreaterThan(15);
    expect(words.length).toBeLessThanOrEqual(25);
  });
});

/** library.test.ts reads the recipes. */
function withoutRecipes(text: string): string {
  return text.replace(/\n## Recipes\n.*?(?=\n## )/s, "");
}
