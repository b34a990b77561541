// Two edits of one policy become one.

import fc from "fast-check";
import { expect, it } from "vitest";
import { isSame, mergeEdits } from "../../console/src/pages/policies/editor/merge.ts";
import { namesOfPrototypes } from "../fixtures/documents/names-of-prototypes.ts";

const limit = { algorithm: "fixed-window", quota: 5, window: "1m" };
const base = { name: "books", description: "a", match: { paths: ["/a"] }, limits: [limit, { ...limit, name: "b" }] };

it("takes from each what only that one changed, within objects and limits, too", () => {
  const mine = { ...base, description: "mine", limits: [{ ...limit, quota: 7 }, base.limits[1]] };
  const theirs = {
    ...base,
    match: { paths: ["/a"], hosts: ["x.test"] },
    limits: [limit, { ...limit, name: "b", window: "1h" }],
  };
  expect(mergeEdits(base, mine, theirs)).toEqual({
    document: {
      name: "books",
      description: "mine",
      match: { paths: ["/a"], hosts: ["x.test"] },
      limits: [
        { ...limit, quota: 7 },
        { ...limit, name: "b", window: "1h" },
      ],
    },
    conflicts: [],
  });
});

it("names what both changed differently, with mine in the document", () => {
  const mine = { ...base, limits: [{ ...limit, quota: 7 }, base.limits[1]] };
  const theirs = { ...base, limits: [{ ...limit, quota: 9 }, base.limits[1]] };
  const { document, conflicts } = mergeEdits(base, mine, theirs);
  expect(conflicts).toEqual([{ path: ["limits", 0, "quota"], mine: 7, theirs: 9 }]);
  expect(document).toEqual(mine);
});

it("a list that got longer at one side and changed at the other is chosen whole", () => {
  const mine = { ...base, limits: [limit] };
  const theirs = { ...base, limits: [{ ...limit, quota: 9 }, base.limits[1]] };
  expect(mergeEdits(base, mine, theirs).conflicts).toEqual([
    { path: ["limits"], mine: mine.limits, theirs: theirs.limits },
  ]);
});

it("what one deleted and the other changed is a conflict; what both deleted is gone", () => {
  const { description: _, ...without } = base;
  expect(mergeEdits(base, without, { ...base, description: "theirs" }).conflicts).toEqual([
    { path: ["description"], mine: undefined, theirs: "theirs" },
  ]);
  expect(mergeEdits(base, without, without)).toEqual({ document: without, conflicts: [] });
  expect(mergeEdits(base, without, base).document).toEqual(without);
});

it("an edit merged with no edit is that edit", () => {
  const json = fc.dictionary(
    fc.constantFrom("a", "b", "c", "d"),
    fc.jsonValue({ maxDepth: 3, noNegativeZero: true } as object).filter((one) => one !== null),
  );
  fc.assert(
    fc.property(json, json, (one, other) => {
      for (const merged of [mergeEdits(one, other, one), mergeEdits(one, one, other), mergeEdits(one, other, other)]) {
        expect(merged.conflicts).toEqual([]);
        expect(isSame(merged.document, other)).toBe(true);
      }
    }),
  );
});

it("overrides of different keys at the same place are no changes of one override", () => {
  const of = (key: string, quota: number) => ({ overrides: [{ key: [key], limits: [{ quota }] }] });
  const { document, conflicts } = mergeEdits(of("alice", 100), of("bob", 100), of("alice", 100_000));
  expect(conflicts).toEqual([
    { path: ["overrides"], mine: of("bob", 100).overrides, theirs: of("alice", 100_000).overrides },
  ]);
  expect(document).toEqual(of("bob", 100));
});

it.each(namesOfPrototypes)("a plan called %s is one as any other", (name) => {
  const plans = (own: Record<string, unknown>) => ({ plans: own });
  const odd = (value: unknown) => Object.fromEntries([[name, value]]);
  const both = { ...odd([limit]), b: [limit] };
  const changed = { ...odd([limit]), b: [{ ...limit, quota: 7 }] };
  // They have deleted it, and changed nothing else; mine has changed another one.
  expect(mergeEdits(plans(both), plans(changed), plans({ b: [limit] }))).toEqual({
    document: plans({ b: [{ ...limit, quota: 7 }] }),
    conflicts: [],
  });
  // Mine has made it.
  const { document } = mergeEdits(plans({ b: [limit] }), plans(changed), plans({ b: [limit] }));
  expect(Object.keys((document as typeof base & { plans: object }).plans)).toEqual(expect.arrayContaining([name, "b"]));
  expect(isSame(odd([limit]), { other: [limit] })).toBe(false);
});
