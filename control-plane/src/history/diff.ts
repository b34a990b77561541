// Shows what changed in a document: as a JSON Patch (RFC 6902) for programs, and as a unified diff of YAML for people. The
// shortest diff of long lists may take minutes to find. So the search ends early, and what differs is then replaced as a whole.

import { createPatch, type Operation, type Pointer } from "rfc6902";
import type { DocumentChange, DocumentKind } from "../storage/history.ts";
import { type Edit, editsBetween } from "./edits.ts";
import { yamlParts } from "./yaml-parts.ts";

type VoidableDiff = NonNullable<Parameters<typeof createPatch>[2]>;

export interface ShownChange {
  readonly kind: DocumentKind;
  readonly app: string;
  readonly name: string;
  readonly change: "created" | "updated" | "deleted";
  /** From the document before to the one after. A document that was created or deleted is replaced as a whole. */
  readonly patch: readonly Operation[];
  /** A unified diff of both as YAML. */
  readonly text: string;
}

/** For all lists of a document together, and for its text: some milliseconds. Some 700 lines may have gone and come. */
const mostEffort = 300_000;

/** @param pause is called between steps of some milliseconds, and resolves when it is time for the next one */
export async function showChanges(
  changes: readonly DocumentChange[],
  pause: () => Promise<void>,
): Promise<ShownChange[]> {
  const shown: ShownChange[] = [];
  for (const { kind, app, name, before, after } of changes) {
    const change = before === undefined ? "created" : after === undefined ? "deleted" : "updated";
    await pause();
    const patch = patchOf(before, after);
    const text = await textOf(`${app}/${kind}/${name}`, before, after, pause);
    shown.push({ kind, app, name, change, patch, text });
  }
  return shown;
}

function patchOf(before: unknown, after: unknown): Operation[] {
  if (before === undefined) return [{ op: "add", path: "", value: after }];
  if (after === undefined) return [{ op: "remove", path: "" }];
  const effort = { left: mostEffort };
  /** @returns undefined if these are not two lists */
  const patchOfLists: VoidableDiff = (one: unknown, other: unknown, at: Pointer) => {
    if (!Array.isArray(one) || !Array.isArray(other)) return undefined;
    const [from, to] = [one, other].map((list) => list.map((item) => JSON.stringify(item))) as [string[], string[]];
    const edits = editsBetween(from, to, effort);
    if (edits === undefined) return [{ op: "replace", path: at.toString(), value: other }];
    return edits.flatMap((edit) => operationsOf(edit, one, other, at, patchOfLists));
  };
  return createPatch(before, after, patchOfLists);
}

/** What is before the edit is the same already in the list that the patch changes as in the one after. */
function operationsOf(
  { from, removed, to, added }: Edit,
  before: readonly unknown[],
  after: readonly unknown[],
  list: Pointer,
  patchOfLists: VoidableDiff,
): Operation[] {
  const pathOf = (index: number) => list.add(String(index)).toString();
  // An item that is removed where another is added was changed.
  const changed = Math.min(removed, added);
  const operations: Operation[] = [];
  for (let k = 0; k < changed; k++) {
    const within = createPatch(before[from + k], after[to + k], patchOfLists);
    for (const operation of within) operations.push({ ...operation, path: pathOf(to + k) + operation.path });
  }
  for (let k = changed; k < removed; k++) operations.push({ op: "remove", path: pathOf(to + changed) });
  for (let k = changed; k < added; k++) operations.push({ op: "add", path: pathOf(to + k), value: after[to + k] });
  return operations;
}

async function textOf(name: string, before: unknown, after: unknown, pause: () => Promise<void>): Promise<string> {
  const from = await linesOf(before, pause);
  const to = await linesOf(after, pause);
  const all = [{ from: 0, removed: from.length, to: 0, added: to.length }];
  const edits = editsBetween(from, to, { left: mostEffort }) ?? all;
  const [nameBefore, nameAfter] = [before, after].map((document) => (document === undefined ? "/dev/null" : name));
  return [`--- ${nameBefore}`, `+++ ${nameAfter}`, ...unifiedLines(from, to, edits), ""].join("\n");
}

async function linesOf(document: unknown, pause: () => Promise<void>): Promise<string[]> {
  const lines: string[] = [];
  if (document === undefined) return lines;
  for (const part of yamlParts(document)) {
    lines.push(...part);
    await pause();
  }
  return lines;
}

/** The lines that are shown around an edit. */
const context = 3;

/** The hunks of a unified diff. */
function* unifiedLines(before: readonly string[], after: readonly string[], edits: readonly Edit[]): Generator<string> {
  for (let first = 0; first < edits.length; ) {
    let end = first + 1;
    while (end < edits.length && gapBefore(edits, end) <= 2 * context) end += 1;
    const hunk = edits.slice(first, end);
    const [start, last] = [hunk[0] as Edit, hunk.at(-1) as Edit];
    const above = Math.min(context, start.from);
    const below = Math.min(context, before.length - last.from - last.removed);
    const removed = last.from + last.removed + below - start.from + above;
    const added = last.to + last.added + below - start.to + above;
    yield `@@ -${rangeOf(start.from - above, removed)} +${rangeOf(start.to - above, added)} @@`;
    let done = start.from - above;
    for (const edit of hunk) {
      for (const line of before.slice(done, edit.from)) yield ` ${line}`;
      done = edit.from + edit.removed;
      for (const line of before.slice(edit.from, done)) yield `-${line}`;
      for (const line of after.slice(edit.to, edit.to + edit.added)) yield `+${line}`;
    }
    for (const line of before.slice(done, done + below)) yield ` ${line}`;
    first = end;
  }
}

function gapBefore(edits: readonly Edit[], i: number): number {
  const [former, edit] = [edits[i - 1] as Edit, edits[i] as Edit];
  return edit.from - former.from - former.removed;
}

function rangeOf(start: number, count: number): string {
  return `${count === 0 ? start : start + 1},${count}`;
}
