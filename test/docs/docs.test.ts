// Docs that name what the code has: a field, a variable, a metric or a file that one side lacks is a fault of the other.

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, it } from "vitest";
import { type Field, policyShape } from "../../limiter/src/policy/shape.ts";

const project = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(project, path), "utf8");
const sources = (pattern: string) => globSync(pattern, { cwd: project }).map(read).join("\n");

/** Every `name` in the first cell of a table row. */
function namesInTables(markdown: string): Set<string> {
  const names = new Set<string>();
  for (const [, cell] of markdown.matchAll(/^\| ([^|]*) \|/gm)) {
    for (const [, name] of (cell as string).matchAll(/`([^`]+)`/g)) names.add(name as string);
  }
  return names;
}

function fieldNames(fields: Readonly<Record<string, Field>>): string[] {
  return Object.entries(fields).flatMap(([name, { shape }]) => {
    const inner = shape.kind === "list" ? shape.of : shape;
    return [name, ...(inner.kind === "record" ? fieldNames(inner.fields) : [])];
  });
}

it("docs/policies.md has every field of a policy", () => {
  const text = read("docs/policies.md");
  const missing = fieldNames(policyShape.fields).filter(
    (name) => !text.includes(`\`${name}\``) && !text.includes(`\`${name}:`),
  );
  expect(missing).toEqual([]);
});

it("docs/policies.md's example is a policy", async () => {
  const { parse } = await import("yaml");
  const { validatePolicy } = await import("../../limiter/src/policy/validate.ts");
  const [, example] = /```yaml\n(.*?)```/s.exec(read("docs/policies.md")) ?? [];
  expect(validatePolicy(parse(example as string)).problems).toEqual([]);
});

it("docs/operations.md has every SLUICE_ variable that the code reads, and no other", () => {
  const code = sources("{launch,gateway/src,control-plane/src}/**/*.{ts,mjs}") + read("nginx.conf");
  const internal = [
    "SLUICE_MODULES",
    "SLUICE_USER",
    "SLUICE_LUA_DIR",
    "SLUICE_GATEWAY_DIR",
    "SLUICE_RESOLVER",
    "SLUICE_TRUST",
    "SLUICE_UPSTREAM_ADDRESS",
  ];
  const used = new Set([...code.matchAll(/\bSLUICE_[A-Z_]*[A-Z]\b/g)].map(([name]) => name));
  for (const name of internal) used.delete(name);
  const documented = [...namesInTables(read("docs/operations.md"))].filter((name) => name.startsWith("SLUICE_"));
  expect(documented.sort()).toEqual([...used].sort());
});

it("docs/operations.md has every metric of the gateway, and no other", () => {
  const inCode = new Set(
    [...sources("gateway/src/private/metrics.ts").matchAll(/"(sluice_\w+)"/g)].map(([, name]) => name),
  );
  const inDocs = [...namesInTables(read("docs/operations.md"))]
    .map((name) => name.replace(/\{.*/, ""))
    .filter((name) => /^sluice_/.test(name) && name !== "sluice.db");
  expect(inDocs.sort()).toEqual([...inCode].sort());
});

it("docs/dependencies.md has a line for every dependency, and no other", () => {
  const manifests = ["package.json", "control-plane/package.json", "gateway/package.json", "limiter/package.json"];
  const inUse = manifests.flatMap((manifest) => {
    const { dependencies = {}, devDependencies = {} } = JSON.parse(read(manifest));
    return Object.keys({ ...dependencies, ...devDependencies });
  });
  const [npm = ""] = read("docs/dependencies.md").split("\n## Debian");
  expect([...namesInTables(npm)].sort()).toEqual(inUse.sort());
});

it("every link in the docs leads to a file", () => {
  const broken = globSync("{README.md,CHANGELOG.md,{docs,bench}/*.md}", { cwd: project }).flatMap((file) =>
    [...read(file).matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)]
      .map(([, target]) => target as string)
      .filter((target) => !existsSync(join(project, dirname(file), target)))
      .map((target) => `${file}: ${target}`),
  );
  expect(broken).toEqual([]);
});
