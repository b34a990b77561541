// Entries of the history that hold many documents of an app: a change of thousands is a few entries of bounded size, with
// consecutive revisions. So no row is too large for a database server, and nobody who reads one waits for all of them.

import { setImmediate } from "node:timers/promises";
import type { RecordEntry } from "./change.ts";
import type { Entry } from "./entry.ts";

/** What such an entry has before and after, by kind and name. Null: there was none. */
export type ManyDocuments = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>;

/** A document as JSON before and after; undefined: there was none. */
export interface ChangedText {
  readonly kind: string;
  readonly name: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** MariaDB's max_allowed_packet is 16 MiB, and a text may have four bytes per character. */
const mostCharacters = 1_000_000;
const mostDocuments = 500;

/**
 * Records the changes, in their order, in as few entries as their size allows.
 *
 * @param entryOf returns the rest of the entry of some changes
 * @returns the revision of each change, in their order
 */
export async function recordMany<Change extends ChangedText>(
  record: RecordEntry,
  changes: readonly Change[],
  entryOf: (group: readonly Change[]) => Omit<Entry, "before" | "after">,
): Promise<number[]> {
  const revisions: number[] = [];
  for (const group of grouped(changes)) {
    const entry = entryOf(group);
    // Like an entry of one document that was deleted.
    const after = entry.action === "delete-policies" ? {} : { after: textOf(group, "after") };
    const revision = await record({ ...entry, before: textOf(group, "before"), ...after });
    for (const _ of group) revisions.push(revision);
    // SQLite blocks the thread, so other requests get their turn in between.
    await setImmediate();
  }
  return revisions;
}

function* grouped<Change extends ChangedText>(changes: readonly Change[]): Generator<Change[]> {
  let group: Change[] = [];
  let characters = 0;
  for (const change of changes) {
    const more = (change.before?.length ?? 0) + (change.after?.length ?? 0) + 2 * change.name.length;
    if (group.length === mostDocuments || (group.length > 0 && characters + more > mostCharacters)) {
      yield group;
      group = [];
      characters = 0;
    }
    group.push(change);
    characters += more;
  }
  if (group.length > 0) yield group;
}

/** The texts are put together as they are: they are JSON already. */
function textOf(changes: readonly ChangedText[], side: "before" | "after"): string {
  const byKind = new Map<string, string[]>();
  for (const { kind, name, [side]: text = "null" } of changes) {
    const fields = byKind.get(kind) ?? [];
    byKind.set(kind, fields);
    fields.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${[...byKind].map(([kind, fields]) => `${JSON.stringify(kind)}:{${fields.join(",")}}`).join(",")}}`;
}
