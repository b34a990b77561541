// The edits between two lists: they make one of the other, and are the fewest.

import fc from "fast-check";
import { expect, it } from "vitest";
import { editsBetween } from "../../../control-plane/src/history/edits.ts";

const effort = () => ({ left: 1_000_000 });
const lists = fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 24 });

/** The length of the longest list that is in both, by the table that everybody knows. */
function commonLength(one: readonly string[], other: readonly string[]): number {
  let row = new Array<number>(other.length + 1).fill(0);
  for (const item of one) {
    const next = [0];
    for (const [j, another] of other.entries()) {
      next.push(item === another ? (row[j] as number) + 1 : Math.max(row[j + 1] as number, next[j] as number));
    }
    row = next;
  }
  return row.at(-1) as number;
}

it("they make one list of the other, are the fewest, and none is next to another", () => {
  const property = fc.property(lists, lists, (before, after) => {
    const edits = editsBetween(before, after, effort()) ?? [];
    const made = [...before];
    for (const { from, removed, to, added } of [...edits].reverse())
      made.splice(from, removed, ...after.slice(to, to + added));
    expect(made).toEqual(after);
    const changed = edits.reduce((sum, { removed, added }) => sum + removed + added, 0);
    expect(changed).toBe(before.length + after.length - 2 * commonLength(before, after));
    for (const [i, { from, removed }] of edits.entries()) {
      const next = edits[i + 1];
      if (next !== undefined) expect(next.from).toBeGreaterThan(from + removed);
    }
  });
  fc.assert(property, { numRuns: 500 });
});

it("the search ends when the effort that it shares with others is used up", () => {
  const shared = { left: 1_000 };
  const numbers = (from: number) => Array.from({ length: 30 }, (_, i) => `${from + i}`);
  expect(editsBetween(numbers(0), numbers(0), shared)).toEqual([]);
  expect(shared.left).toBe(1_000);
  let searches = 0;
  while (editsBetween(["a", ...numbers(0), "b"], ["c", ...numbers(0), "d"], shared) !== undefined) searches += 1;
  expect(searches).toBeGreaterThan(5);
  expect(searches).toBeLessThan(30);
});
