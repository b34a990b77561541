// A JSON Patch makes exactly the one document of the other, whatever differs, and no documents keep the control plane busy for long.

import { setImmediate } from "node:timers/promises";
import { applyPatch as applyTextPatch } from "diff";
import fc from "fast-check";
import { applyPatch } from "rfc6902";
import { expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { showChanges } from "../../../control-plane/src/history/diff.ts";
import { yamlParts } from "../../../control-plane/src/history/yaml-parts.ts";

async function show(before: unknown, after: unknown) {
  const change = { kind: "policy", app: "shop", name: "books", before, after } as const;
  const [shown] = await showChanges([change], setImmediate);
  if (shown === undefined) throw new Error("expected a change");
  return shown;
}

async function expectPatches(before: unknown, after: unknown): Promise<void> {
  const { patch, text } = await show(before, after);
  // Within an object, so that the document as a whole can be replaced too.
  const patched = { document: structuredClone(before) };
  const failures = applyPatch(
    patched,
    patch.map((operation) => ({ ...operation, path: `/document${operation.path}` })),
  );
  expect(failures.filter((failure) => failure !== null)).toEqual([]);
  expect(patched.document).toEqual(after);
  expect(applyTextPatch(yamlOf(before), text)).toBe(yamlOf(after));
}

function yamlOf(document: unknown): string {
  return `${[...yamlParts(document)].flat().join("\n")}\n`;
}

/** Repeatable numbers from 0 to below 1. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const names = ["a", "a/b", "a~b", "~1", "~0", "", "0", "-", "toString", "é 😀"];

function documentFrom(next: () => number, depth: number): unknown {
  const kind = Math.floor(next() * (depth === 0 ? 4 : 7));
  const many = () => Array.from({ length: Math.floor(next() * 6) });
  if (kind === 0) return Math.floor(next() * 4);
  if (kind === 1) return next() < 0.5;
  if (kind === 2) return names[Math.floor(next() * names.length)];
  if (kind === 3) return null;
  if (kind < 6) return many().map(() => documentFrom(next, depth - 1));
  const pairs = many().map(() => [names[Math.floor(next() * names.length)], documentFrom(next, depth - 1)]);
  return Object.fromEntries(pairs);
}

/** Some of its parts are others. */
function editedFrom(document: unknown, next: () => number): unknown {
  if (next() < 0.15) return documentFrom(next, 2);
  if (Array.isArray(document)) {
    return document.flatMap((item) => {
      const what = next();
      if (what < 0.2) return [];
      if (what < 0.4) return [documentFrom(next, 1), item];
      return [editedFrom(item, next)];
    });
  }
  if (typeof document !== "object" || document === null) return document;
  return Object.fromEntries(Object.entries(document).map(([name, value]) => [name, editedFrom(value, next)]));
}

it("the patch and the text make one document of the other, for any two documents", async () => {
  const next = numbersFrom(18);
  for (let i = 0; i < 600; i++) {
    const x = documentFrom(next, 4);
    await expectPatches({ x }, { x: editedFrom(x, next) });
  }
});

/** JSON without a key that no document may have. */
const json = fc
  .jsonValue({ maxDepth: 3 })
  .map((value) => JSON.parse(JSON.stringify(value)))
  .filter((value) => !JSON.stringify(value).includes('"__proto__"'));
const longLists = fc.array(json, { maxLength: 200, size: "max" });
/** A long list, and what becomes of it: items go, come, change places and change. */
const edited = fc
  .tuple(longLists, longLists, fc.array(fc.tuple(fc.nat(), fc.boolean()), { maxLength: 200, size: "max" }))
  .map(([before, others, picks]) => {
    const pick = ([at, isOld]: [number, boolean]) => (isOld ? before : others)[at % (isOld ? before : others).length];
    const picked = picks.map(pick).filter((item) => item !== undefined);
    return { before, after: [...before.slice(0, before.length >> 1), ...picked, ...before.slice(before.length >> 1)] };
  });

it("they do so for long documents, too, of which only parts are compared", async () => {
  const property = fc.asyncProperty(edited, edited, json, async (one, other, rest) => {
    const [before, after] = [
      { one: one.before, rest: { deep: [other.before, rest] } },
      { one: one.after, rest: { deep: [other.after, rest] } },
    ];
    await expectPatches(before, after);
    await expectPatches(after, before);
  });
  await fc.assert(property, { numRuns: 30 });
});

it("YAML that is written in parts says the same, and is the library's if no text is folded", () => {
  const property = fc.property(fc.dictionary(fc.string(), longLists, { maxKeys: 4 }), (document) => {
    fc.pre(!JSON.stringify(document).includes('"__proto__"'));
    expect(parse(yamlOf(document))).toEqual(document);
  });
  fc.assert(property, { numRuns: 40 });
  const items = Array.from({ length: 900 }, (_, i) => ({
    key: [`k${i}`, "a: b"],
    nested: [[i, [{}]], { a: { b: [] } }],
  }));
  const document = { items, large: [[items], { items }], text: "a\n\n  b\n", last: null };
  expect(yamlOf(document)).toBe(stringify(document, { aliasDuplicateObjects: false }));
});

it("one item more in a long list is one operation", async () => {
  const items = Array.from({ length: 1_000 }, (_, i) => ({ key: [`k${i}`] }));
  const added = items.toSpliced(500, 0, { key: ["new"] });
  expect((await show({ items }, { items: added })).patch).toEqual([
    { op: "add", path: "/items/500", value: { key: ["new"] } },
  ]);
  expect((await show({ items: added }, { items })).patch).toEqual([{ op: "remove", path: "/items/500" }]);
  const changed = items.with(3, { key: ["other"] });
  expect((await show({ items }, { items: changed })).patch).toEqual([
    { op: "replace", path: "/items/3/key/0", value: "other" },
  ]);
});

it("long lists with nothing in common are replaced as a whole, which takes no longer than to read them", async () => {
  const list = (of: string) => ({ items: Array.from({ length: 8_000 }, (_, i) => `${of}${i}`) });
  const [before, after] = [list("a"), list("b")];
  const { user } = process.cpuUsage();
  await expectPatches(before, after);
  expect((await show(before, after)).patch).toHaveLength(1);
  // The shortest diff of these takes half a minute, and more memory than there is.
  expect((process.cpuUsage().user - user) / 1_000).toBeLessThan(5_000);
});
