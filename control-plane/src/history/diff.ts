// Shows what changed in a document: as a JSON Patch (RFC 6902) for programs, and as a unified diff of YAML for people. The
// shortest diff of long lists may take minutes to find. So the search ends early, and what differs is then replaced as a whole.

import { setImmediate } from "node:timers/promises";
import { createTwoFilesPatch, diffArrays, FILE_HEADERS_ONLY } from "diff";
import { createPatch, type Operation, type Pointer } from "rfc6902";
import { stringify } from "yaml";
import type { DocumentChange, DocumentKind } from "../storage/history.ts";

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

/** The time to find a diff grows with the square of the number of lines, or items of a list, that were added and removed. */
const maxEditLength = 400;
/** Other requests get their turn in between. */
const shownAtOnceMs = 10;

export async function showChanges(changes: readonly DocumentChange[]): Promise<ShownChange[]> {
  const shown: ShownChange[] = [];
  let beganMs = performance.now();
  for (const change of changes) {
    shown.push(showChange(change));
    if (performance.now() - beganMs < shownAtOnceMs) continue;
    await setImmediate();
    beganMs = performance.now();
  }
  return shown;
}

function showChange({ kind, app, name, before, after }: DocumentChange): ShownChange {
  const change = before === undefined ? "created" : after === undefined ? "deleted" : "updated";
  return {
    kind,
    app,
    name,
    change,
    patch: patchOf(before, after),
    text: textOf(`${app}/${kind}/${name}`, before, after),
  };
}

function patchOf(before: unknown, after: unknown): Operation[] {
  if (before === undefined) return [{ op: "add", path: "", value: after }];
  if (after === undefined) return [{ op: "remove", path: "" }];
  return createPatch(before, after, patchOfLists);
}

/** @returns undefined if these are not two lists */
function patchOfLists(before: unknown, after: unknown, at: Pointer): Operation[] | undefined {
  if (!Array.isArray(before) || !Array.isArray(after)) return undefined;
  const [from, to] = [before, after].map((list) => list.map((item) => JSON.stringify(item)));
  const parts = diffArrays(from ?? [], to ?? [], { maxEditLength });
  if (parts === undefined) return [{ op: "replace", path: at.toString(), value: after }];
  const operations: Operation[] = [];
  /** How far both lists are done. What is done is the same in the list that the patch changes as in `after`. */
  let [doneBefore, doneAfter] = [0, 0];
  for (const [i, { added, removed, count }] of parts.entries()) {
    if (removed) {
      // An item that is removed where another is added was changed.
      const next = parts[i + 1];
      const changed = Math.min(count, next?.added === true ? next.count : 0);
      for (let k = 0; k < changed; k++) {
        const path = at.add(String(doneAfter)).toString();
        const within = createPatch(before[doneBefore], after[doneAfter], patchOfLists);
        operations.push(...within.map((operation) => ({ ...operation, path: path + operation.path })));
        doneBefore += 1;
        doneAfter += 1;
      }
      const path = at.add(String(doneAfter)).toString();
      for (let k = changed; k < count; k++) operations.push({ op: "remove", path });
      doneBefore += count - changed;
      continue;
    }
    if (!added) {
      doneBefore += count;
      doneAfter += count;
      continue;
    }
    const former = parts[i - 1];
    for (let k = former?.removed === true ? Math.min(count, former.count) : 0; k < count; k++) {
      operations.push({ op: "add", path: at.add(String(doneAfter)).toString(), value: after[doneAfter] });
      doneAfter += 1;
    }
  }
  return operations;
}

function textOf(name: string, before: unknown, after: unknown): string {
  const [from = "", to = ""] = [before, after].map((document) => (document === undefined ? "" : stringify(document)));
  const [nameBefore, nameAfter] = [before, after].map((document) => (document === undefined ? "/dev/null" : name));
  const options = { context: 3, headerOptions: FILE_HEADERS_ONLY, maxEditLength };
  const text = createTwoFilesPatch(nameBefore ?? "", nameAfter ?? "", from, to, undefined, undefined, options);
  return text ?? `--- ${nameBefore}\n+++ ${nameAfter}\n${wholeHunk(from, to)}`;
}

/** A unified diff that removes all lines of one text and adds all of the other. */
function wholeHunk(from: string, to: string): string {
  const [removed, added] = [from, to].map((text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n")));
  const [before = [], after = []] = [removed, added];
  const range = (lines: readonly string[]) => `${lines.length === 0 ? 0 : 1},${lines.length}`;
  const lines = [
    `@@ -${range(before)} +${range(after)} @@`,
    ...before.map((line) => `-${line}`),
    ...after.map((line) => `+${line}`),
  ];
  return `${lines.join("\n")}\n`;
}
