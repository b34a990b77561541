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
  beginTurn,
  deleteEntry,
  deleteRecord,
  entryIn,
  presentTurn,
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
  /** The version that it describes, and the turn of this worker: another worker may have taken over since. */
  version: number;
  readonly turn: number;
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
  if (isPublishing()) return true;
  book = undefined;
  const turn = beginTurn();
  // What was begun and not published.
  deleteRecord(version + 1);
  const goneAt = emptyTable<number>();
  let oldest = version;
  for (; oldest > 0; oldest--) {
    const record = recordOf(oldest, pause);
    if (record === undefined) break;
    for (const name of record.gone) goneAt[name] ??= oldest;
  }
  const found: SlotBook = { slotOf: emptyTable(), free: [], end: slotEnd(), version, turn, replaced: [] };
  const versionOf = emptyTable<number>();
  const replaced: number[] = [];
  for (let slot = 0; slot < found.end; slot++) {
    pause();
    const entry = entryIn(slot);
    if (presentTurn() !== turn) return false;
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
  if (publishedVersion() !== version || ownVersion() !== version || presentTurn() !== turn) return false;
  book = found;
  return true;
}

/** Returns whether this worker can publish: nobody else has begun to, or has published, since it did. */
export function isPublishing(): boolean {
  return book !== undefined && isValid(book);
}

function isValid({ version, turn }: SlotBook): boolean {
  return turn === presentTurn() && version === publishedVersion() && version === ownVersion();
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
 * @param preparedOn the version whose state the change was prepared for
 * @param set the entries that the change sets, as they were written
 * @param gone the names that it removes; it may remove more bans than these
 * @returns its version; or undefined, and why it could not be published
 */
export function publish(
  prepared: PreparedChange,
  preparedOn: number,
  set: readonly EntryText[],
  gone: readonly string[],
  pause: Pause,
): LuaMultiReturn<[version: number | undefined, failure: string | undefined]> {
  const slots = openBook();
  const isOwn = () => slots === book && isValid(slots);
  if (!isOwn() || slots.version !== preparedOn) {
    book = undefined;
    return $multi(undefined, changedMeanwhile);
  }
  deleteReplaced();
  const version = preparedOn + 1;
  const allGone = allNamesGone(gone, prepared);
  const addedSlots: number[] = [];
  let failure = setSlotEnd(slots.end + math.max(0, set.length - slots.free.length));
  for (const entry of set) {
    if (failure !== undefined) break;
    const slot = slots.free.pop() ?? slots.end;
    if (slot === slots.end) slots.end += 1;
    failure = putEntry(slot, entry, version);
    if (failure !== undefined) break;
    addedSlots.push(slot);
    pause();
    if (!isOwn()) failure = changedMeanwhile;
  }
  let hasRecord = false;
  if (failure === undefined) {
    failure = putRecord(version, { addedSlots, gone: allGone }, pause, isOwn);
    hasRecord = failure === undefined;
  }
  if (!isOwn() || failure === "exists") failure = changedMeanwhile;
  failure ??= publishVersion(version, prepared.change.position);
  if (failure !== undefined) {
    // The slots and the record may be another worker's by now. Whoever publishes next deletes what nobody uses.
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
  slots.version = version;
  noteSlots(slots, version, set, addedSlots, allGone);
  return $multi(version, undefined);
}

/** Why a change was not published although there is room. */
export const changedMeanwhile = "another worker has published a change meanwhile";

/** All names that a change removes: the bans of a policy that goes, go with it. */
export function allNamesGone(gone: readonly string[], { bansGone }: PreparedChange): readonly string[] {
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
  if (book === undefined || !isPublishing()) return;
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
