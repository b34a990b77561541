// Publishes changes, for the one worker that receives them: it stores the entries in shared memory, puts the version into force, and
// deletes what no worker needs any more. The worker knows which entry is in which slot; another one that takes over finds out by reading
// all slots once, and repairs what its predecessor left undone.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { EntryText, HeldEntries } from "../../../limiter/src/protocol/read-frame.ts";
import { commitChange, type PreparedChange } from "../../../limiter/src/state/change.ts";
import { nameOfBan } from "../../../limiter/src/state/entries.ts";
import { isSamePosition } from "../../../limiter/src/state/policy-state.ts";
import { expectPolicies } from "../runtime/string-table.ts";
import { allApplied, noteApplied, ownVersion } from "./applied-versions.ts";
import { currentState, noteChanged } from "./current.ts";
import {
  beginTerm,
  currentTerm,
  deleteEntry,
  deleteRecord,
  entryIn,
  publishedVersion,
  publishVersion,
  putEntry,
  putRecord,
  recordOf,
  setSlotEnd,
  slotEnd,
} from "./shared-entries.ts";

/** Which entry is in which slot. */
interface SlotBook {
  readonly slotOf: Record<string, number | undefined>;
  /** Slots that can be used again. */
  readonly free: number[];
  end: number;
  /** Another worker that takes over begins another term: this one then knows nothing of the slots any more. */
  readonly term: number;
  /** What is to be deleted when every worker has applied the version, in order of versions. */
  readonly replaced: { readonly version: number; readonly slots: readonly number[] }[];
}

/** A worker that hangs for so many versions reads everything anew afterwards. */
const mostVersionsKept = 1_000;

let book: SlotBook | undefined;

/** Called when this worker does not receive changes any more. */
export function stopPublishing(): void {
  book = undefined;
}

/**
 * Makes this worker able to publish. It must decide by the published version.
 *
 * @returns false: another version was published meanwhile
 */
export function startPublishing(pause: Pause): boolean {
  const version = publishedVersion();
  if (ownVersion() !== version) return false;
  if (book !== undefined) return true;
  // Before anything is swept: a worker that was stalled stores nothing afterwards.
  const term = beginTerm();
  // What was begun and not published.
  deleteRecord(version + 1);
  const goneAt = emptyTable<number>();
  let oldest = version;
  for (; oldest > 0; oldest--) {
    const record = recordOf(oldest, pause);
    if (record === undefined) break;
    for (const name of record.gone) goneAt[name] ??= oldest;
  }
  const found: SlotBook = { slotOf: emptyTable(), free: [], end: slotEnd(), term, replaced: [] };
  const versionOf = emptyTable<number>();
  const replaced: number[] = [];
  for (let slot = 0; slot < found.end; slot++) {
    const entry = entryIn(slot);
    pause();
    if (entry === undefined) {
      found.free.push(slot);
    } else if (entry.version > version) {
      deleteEntry(slot);
      found.free.push(slot);
    } else if (entry.version < (goneAt[entry.name] ?? 0) || entry.version < (versionOf[entry.name] ?? 0)) {
      replaced.push(slot);
    } else {
      const before = found.slotOf[entry.name];
      if (before !== undefined) replaced.push(before);
      found.slotOf[entry.name] = slot;
      versionOf[entry.name] = entry.version;
    }
  }
  // Deleted with the records of all versions until now.
  for (let earlier = oldest + 1; earlier < version; earlier++) found.replaced.push({ version: earlier, slots: [] });
  found.replaced.push({ version, slots: replaced });
  if (currentTerm() !== term || publishedVersion() !== version || ownVersion() !== version) return false;
  book = found;
  return true;
}

export function isPublishing(): boolean {
  return book !== undefined;
}

/** The entries in shared memory. @throws if this worker does not publish */
export function heldEntries(): HeldEntries {
  const { slotOf } = openBook();
  return {
    position: currentState().position,
    textOf(name) {
      const slot = slotOf[name];
      return slot === undefined ? undefined : entryIn(slot)?.text;
    },
    eachName(callback) {
      for (const name in slotOf) callback(name);
    },
  };
}

/**
 * Stores a change for all workers, puts it into force, and makes this worker use it.
 *
 * @param set the entries that the change sets, as they were written
 * @param gone the names that it removes; it may remove more bans than these
 * @param before the published version for which the change was prepared
 * @returns its version; or undefined, and why it could not be published
 */
export function publish(
  prepared: PreparedChange,
  set: readonly EntryText[],
  gone: readonly string[],
  before: number,
  pause: Pause,
): LuaMultiReturn<[version: number | undefined, failure: string | undefined]> {
  const slots = openBook();
  const isAlone = () => currentTerm() === slots.term && publishedVersion() === before && ownVersion() === before;
  if (!isAlone()) {
    book = undefined;
    return $multi(undefined, changedMeanwhile);
  }
  deleteReplaced();
  const version = before + 1;
  const allGone = withBans(gone, prepared);
  const addedSlots: number[] = [];
  let failure: string | undefined;
  setSlotEnd(slots.end + math.max(0, set.length - slots.free.length));
  for (const entry of set) {
    if (!isAlone()) break;
    const slot = slots.free.pop() ?? slots.end;
    if (slot === slots.end) slots.end += 1;
    failure = putEntry(slot, entry, version);
    if (failure !== undefined) break;
    addedSlots.push(slot);
    pause();
  }
  let hasRecord = false;
  if (failure === undefined && isAlone()) {
    failure = putRecord(version, { addedSlots, gone: allGone }, pause);
    hasRecord = failure === undefined;
  }
  if (!isAlone() || failure === "exists") failure = changedMeanwhile;
  failure ??= publishVersion(version, prepared.change.position);
  if (failure !== undefined) {
    // What another worker has taken over is not this one's to delete: the slots may have its entries by now.
    if (failure !== changedMeanwhile) {
      if (hasRecord) deleteRecord(version);
      for (const slot of addedSlots) deleteEntry(slot);
    }
    // The worker reads all slots again before it publishes anything.
    book = undefined;
    return $multi(undefined, failure);
  }
  const isOtherRevision = !isSamePosition(currentState().position, prepared.change.position);
  commitChange(currentState(), prepared);
  if (isOtherRevision) noteChanged();
  expectPolicies(currentState().policyCount);
  noteApplied(version);
  noteSlots(slots, version, set, addedSlots, allGone);
  return $multi(version, undefined);
}

/** Why a change was not published although there is room. */
export const changedMeanwhile = "another worker has published a change meanwhile";

/** Returns the names that a change removes, with the bans of policies that are gone. */
export function withBans(gone: readonly string[], { bansGone }: PreparedChange): readonly string[] {
  if (bansGone.length === 0) return gone;
  const names = emptyTable<boolean>();
  const all: string[] = [];
  const add = (name: string) => {
    if (names[name] !== true) all.push(name);
    names[name] = true;
  };
  for (const name of gone) add(name);
  for (const id of bansGone) add(nameOfBan({ id }));
  return all;
}

function noteSlots(
  { slotOf, replaced }: SlotBook,
  version: number,
  set: readonly EntryText[],
  addedSlots: readonly number[],
  gone: readonly string[],
): void {
  const slots: number[] = [];
  for (const name of gone) {
    const slot = slotOf[name];
    if (slot !== undefined) slots.push(slot);
    delete slotOf[name];
  }
  for (let i = 0; i < set.length; i++) {
    const { name } = set[i] as EntryText;
    const slot = slotOf[name];
    if (slot !== undefined) slots.push(slot);
    slotOf[name] = addedSlots[i] as number;
  }
  replaced.push({ version, slots });
}

/** Deletes what no worker needs any more. Called now and then. */
export function deleteReplaced(): void {
  if (book === undefined) return;
  if (currentTerm() !== book.term) {
    book = undefined;
    return;
  }
  const { replaced, free } = book;
  while (replaced.length > 0) {
    const first = replaced[0] as SlotBook["replaced"][number];
    if (replaced.length <= mostVersionsKept && !allApplied(first.version)) return;
    for (const slot of first.slots) {
      deleteEntry(slot);
      free.push(slot);
    }
    deleteRecord(first.version);
    replaced.shift();
  }
}

function openBook(): SlotBook {
  if (book === undefined) error("this worker does not publish", 0);
  return book;
}
