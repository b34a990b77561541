// The entries of the state in shared memory, one by one, for all workers and for those that start later. Each entry is in a slot of its
// own, which is written once and never changed: an entry that changes gets another slot. A record for each version lists the slots that
// it added and the names that are gone. So a worker reads only what has changed, and a version is in force as soon as its number is
// published. Slots that no version uses any more are deleted when every worker has applied the version that replaced them.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import type { EntryText } from "../../../limiter/src/protocol/read-frame.ts";
import type { Position } from "../../../limiter/src/state/policy-state.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { addSafely, stateDict } from "../runtime/shared-memory.ts";

/** The version in force. Versions are consecutive. */
const versionKey = "snapshot-published";
/** No slot has this number or a higher one. */
const slotEndKey = "snapshot-slot-end";
/** Counts the workers that began to publish, so that an earlier one notices that it was replaced. */
const publisherKey = "snapshot-publisher";
const slotKey = "entry:";
const recordKey = "change:";
const recordLengthKey = "change-length:";
const positionKey = "position:";

/** Lines of a version's record that are stored together. */
const linesTogether = 1_000;

export function publishedVersion(): number {
  return stateDict.get<number>(versionKey)[0] ?? 0;
}

/** From now on, the caller publishes, and whoever did before must not. @returns the number of its turn */
export function beginTurn(): number {
  return addSafely(stateDict, publisherKey, 1, 0) ?? 0;
}

/** The turn of the worker that publishes now. */
export function presentTurn(): number {
  return stateDict.get<number>(publisherKey)[0] ?? 0;
}

/** @returns undefined: there is no such version, or its record is deleted */
export function positionOf(version: number): Position | undefined {
  const [text] = stateDict.get<string>(`${positionKey}${version}`);
  return text === undefined ? undefined : cjson.decode<Position>(text)[0];
}

export function slotEnd(): number {
  return stateDict.get<number>(slotEndKey)[0] ?? 0;
}

/** An entry and the version that it came with. */
export interface SharedEntry extends EntryText {
  readonly version: number;
}

/** @returns undefined: nothing is in the slot */
export function entryIn(slot: number): SharedEntry | undefined {
  const [stored, version] = stateDict.get<string>(`${slotKey}${slot}`);
  if (stored === undefined) return undefined;
  const [lineEnd = 0] = string.find(stored, "\n", 1, true);
  return { name: string.sub(stored, 1, lineEnd - 1), text: string.sub(stored, lineEnd + 1), version: version ?? 0 };
}

/** @returns why it could not be stored: there is no room, or something "exists" there */
export function putEntry(slot: number, { name, text }: EntryText, version: number): string | undefined {
  const [stored, failure] = stateDict.safe_add(`${slotKey}${slot}`, `${name}\n${text}`, 0, version);
  return stored ? undefined : (failure ?? "no memory");
}

/** Call it before entries are put into new slots: whoever reads all slots, reads those below the end. */
export function setSlotEnd(end: number): string | undefined {
  if (end <= slotEnd()) return undefined;
  const [stored, failure] = stateDict.safe_set(slotEndKey, end);
  return stored ? undefined : (failure ?? "no memory");
}

export function deleteEntry(slot: number): void {
  stateDict.delete(`${slotKey}${slot}`);
}

/** What a version changed. */
export interface VersionRecord {
  readonly addedSlots: readonly number[];
  readonly gone: readonly string[];
}

/** A record as it is read. */
export interface PublishedRecord extends VersionRecord {
  /** Whether code like this worker's has found its entries valid. */
  readonly isValid: boolean;
}

/** Counts the loads of the code since shared memory is there. Workers of one generation have the same code. */
let generation = 0;

export function noteGeneration(ofWorkers: number): void {
  generation = ofWorkers;
}

/**
 * @param isOwn returns false when another worker publishes: what is stored is its own then
 * @returns why it could not be stored: there is no room, or there is a record of this version, which "exists"
 */
export function putRecord(
  version: number,
  { addedSlots, gone }: VersionRecord,
  pause: Pause,
  isOwn: (this: void) => boolean,
): string | undefined {
  let parts = 0;
  let lines: string[] = [];
  let failure: string | undefined;
  const putPart = () => {
    if (failure !== undefined) return;
    const [stored, why] = stateDict.safe_add(`${recordKey}${version}:${parts}`, lines.join("\n"));
    lines = [];
    if (!stored) {
      failure = why ?? "no memory";
      return;
    }
    parts += 1;
    pause();
    if (!isOwn()) failure = "exists";
  };
  for (const slot of addedSlots) {
    lines.push(`+${string.format("%d", slot)}`);
    if (lines.length >= linesTogether) putPart();
  }
  for (const name of gone) {
    lines.push(`-${name}`);
    if (lines.length >= linesTogether) putPart();
  }
  putPart();
  if (failure === undefined) {
    const [stored, why] = stateDict.safe_set(`${recordLengthKey}${version}`, parts, 0, generation);
    if (!stored) failure = why ?? "no memory";
  }
  if (failure !== undefined && failure !== "exists") {
    for (let own = 0; own < parts; own++) stateDict.delete(`${recordKey}${version}:${own}`);
  }
  return failure;
}

/** @returns undefined: every worker is expected to have applied the version, and its record is deleted */
export function recordOf(version: number, pause: Pause): PublishedRecord | undefined {
  const [length, validFor] = stateDict.get<number>(`${recordLengthKey}${version}`);
  if (length === undefined) return undefined;
  const addedSlots: number[] = [];
  const gone: string[] = [];
  for (let part = 0; part < length; part++) {
    const [lines] = stateDict.get<string>(`${recordKey}${version}:${part}`);
    if (lines === undefined) return undefined;
    for (const [mark, rest] of string.gmatch(lines, "([+-])([^\n]*)")) {
      if (mark === "+") addedSlots.push(tonumber(rest) as number);
      else gone.push(rest as string);
    }
    pause();
  }
  return { addedSlots, gone, isValid: generation > 0 && validFor === generation };
}

/**
 * Deletes the record of a version, and the position of the one before it. That of the version in force stays: workers that start, and
 * those that have missed a record, read it.
 */
export function deleteRecord(version: number): void {
  const [length = 0] = stateDict.get<number>(`${recordLengthKey}${version}`);
  // In this order, nobody takes half a record for a whole one.
  stateDict.delete(`${recordLengthKey}${version}`);
  // A worker that ended while it stored a record has left parts without a length.
  for (let part = 0; part < length || stateDict.get(`${recordKey}${version}:${part}`)[0] !== undefined; part++) {
    stateDict.delete(`${recordKey}${version}:${part}`);
  }
  for (const left of [version - 1, version]) {
    if (left < publishedVersion()) stateDict.delete(`${positionKey}${left}`);
  }
}

/** Puts a version into force whose entries and record are stored. Call it in one go with the check that no other came between. */
export function publishVersion(version: number, position: Position): string | undefined {
  const [stored, failure] = stateDict.safe_set(`${positionKey}${version}`, cjson.encode(position));
  if (!stored) return failure ?? "no memory";
  // Where a number is already, another one fits. Only the first can lack room.
  const [isInForce, why] = stateDict.safe_set(versionKey, version);
  return isInForce ? undefined : (why ?? "no memory");
}
