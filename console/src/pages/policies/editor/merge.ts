// Merges two edits of one policy: what only one of both changed is taken from there; what both changed differently is for a person to
// choose.

import type { Json, Path } from "./draft.ts";

export interface Conflict {
  readonly path: Path;
  /** undefined: the field is not there. */
  readonly mine: unknown;
  readonly theirs: unknown;
}

export interface Merged {
  /** With mine, where both differ. */
  readonly document: Json;
  readonly conflicts: readonly Conflict[];
}

/** @param base what both edits began with */
export function mergeEdits(base: Json, mine: Json, theirs: Json): Merged {
  const conflicts: Conflict[] = [];
  return { document: mergeRecords(base, mine, theirs, [], conflicts), conflicts };
}

function mergeRecords(base: Json, mine: Json, theirs: Json, path: Path, conflicts: Conflict[]): Json {
  const names = [...new Set([...Object.keys(theirs), ...Object.keys(mine)])];
  const merged = names.map((name): [string, unknown] => [
    name,
    mergeValues(own(base, name), own(mine, name), own(theirs, name), [...path, name], conflicts),
  ]);
  return Object.fromEntries(merged.filter(([, value]) => value !== undefined));
}

function mergeValues(base: unknown, mine: unknown, theirs: unknown, path: Path, conflicts: Conflict[]): unknown {
  if (isSame(mine, theirs) || isSame(theirs, base)) return mine;
  if (isSame(mine, base)) return theirs;
  if (isRecord(mine) && isRecord(theirs)) {
    return mergeRecords(isRecord(base) ? base : {}, mine, theirs, path, conflicts);
  }
  // Lists are merged place by place if they have the same limits or the overrides of the same keys; others are chosen whole.
  if (Array.isArray(base) && Array.isArray(mine) && Array.isArray(theirs)) {
    if (
      base.every(isRecord) &&
      isSame(base.map(identityOf), mine.map(identityOf)) &&
      isSame(base.map(identityOf), theirs.map(identityOf))
    ) {
      return mine.map((item, i) => mergeValues(base[i], item, theirs[i], [...path, i], conflicts));
    }
  }
  conflicts.push({ path, mine, theirs });
  return mine;
}

/** What makes two items of a list the same one: the name of a limit, the key of an override. */
function identityOf(item: unknown): unknown {
  return isRecord(item) ? [item["name"], item["key"]] : undefined;
}

/** @returns whether both say the same, in whatever order their fields are */
export function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => isSame(item, b[i]));
  if (isRecord(a) && isRecord(b)) {
    const names = Object.keys(a);
    return (
      names.length === Object.keys(b).length &&
      names.every((name) => Object.hasOwn(b, name) && isSame(a[name], b[name]))
    );
  }
  return a === b;
}

/** A plan may be called "constructor". */
function own(record: Json, name: string): unknown {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
