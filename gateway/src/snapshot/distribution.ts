// Makes every worker decide by what is published in shared memory. Each worker checks the published version every few ms, and applies
// the versions after its own one by one. A worker that starts, or that has missed a record, reads all entries.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import { emptyTable } from "../../../limiter/src/basics/table.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import { entriesChange, goneEntry } from "../../../limiter/src/protocol/read-frame.ts";
import { commitChange, prepareChange } from "../../../limiter/src/state/change.ts";
import type { GoneEntry } from "../../../limiter/src/state/entries.ts";
import {
  emptyState,
  isSamePosition,
  type PolicyState,
  type Position,
} from "../../../limiter/src/state/policy-state.ts";
import { runUntilDone } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { inSlices } from "../runtime/slices.ts";
import { expectPolicies } from "../runtime/string-table.ts";
import { noteApplied, ownVersion } from "./applied-versions.ts";
import { currentState, noteChanged, replaceState } from "./current.ts";
import { entryIn, positionOf, publishedVersion, recordOf, type SharedEntry, slotEnd } from "./shared-entries.ts";
import { json } from "./text.ts";

/** Each look wakes an idle worker, which takes some 30 µs; a busy one is awake. */
const lookEverySeconds = 0.005;
/** nginx keeps what a timer has taken until it ends. */
const looksInTimer = 10_000;
/** For the collector: what an entry takes at least. */
const leastBytesOfEntry = 200;

let taking = false;

/** Called when a worker starts. Applies the published version at once, and later ones in slices. */
export function followPublications(): void {
  // Makes the place of the number, while there is room: later ones fit there.
  noteApplied(ownVersion());
  takePublished(noPause);
  runUntilDone(look);
}

/** @returns whether to look again */
function look(): boolean {
  for (let looks = 0; looks < looksInTimer; looks++) {
    ngx.sleep(lookEverySeconds);
    if (ngx.worker.exiting()) return false;
    if (publishedVersion() !== ownVersion()) catchUp();
  }
  return true;
}

/** Applies what is published, unless that is under way. Yields. */
export function catchUp(): void {
  if (taking) return;
  taking = true;
  const [ok, failure] = pcall(inSlices<void>, leastBytesOfEntry, takePublished);
  taking = false;
  if (!ok) noteDefect("snapshot", "a worker could not apply a published snapshot", failure);
}

function takePublished(pause: Pause): void {
  while (ownVersion() < publishedVersion()) {
    const next = ownVersion() + 1;
    if (ownVersion() > 0 && applyRecord(next, pause)) continue;
    // A version that this worker published itself meanwhile needs nothing more.
    if (ownVersion() >= next) continue;
    if (!readAll(pause)) return;
  }
}

/** @returns false: its record or a slot is not there any more */
function applyRecord(version: number, pause: Pause): boolean {
  const record = recordOf(version, pause);
  const position = positionOf(version);
  if (record === undefined || position === undefined) return false;
  const added: SharedEntry[] = [];
  for (const slot of record.addedSlots) {
    const entry = entryIn(slot);
    if (entry === undefined || entry.version !== version) return false;
    added.push(entry);
    pause();
  }
  const gone: GoneEntry[] = [];
  for (const name of record.gone) {
    const entry = goneEntry(name);
    if (entry !== undefined) gone.push(entry);
  }
  return apply(currentState(), version, position, { added, gone, isValid: record.isValid }, pause);
}

/**
 * Makes a new state of all entries in shared memory. Versions that are published meanwhile are applied afterwards, because their
 * entries may be among those read or not.
 *
 * @returns false: nothing could be made of them now
 */
function readAll(pause: Pause): boolean {
  const version = publishedVersion();
  const position = positionOf(version);
  if (position === undefined) return false;
  const goneAt = emptyTable<number>();
  // A record that is deleted belongs to a version whose slots are deleted too.
  for (let earlier = version; earlier > 0; earlier--) {
    const record = recordOf(earlier, pause);
    if (record === undefined) break;
    for (const name of record.gone) goneAt[name] ??= earlier;
  }
  const newest = emptyTable<SharedEntry>();
  const end = slotEnd();
  for (let slot = 0; slot < end; slot++) {
    const entry = entryIn(slot);
    pause();
    if (entry === undefined || entry.version > version || entry.version < (goneAt[entry.name] ?? 0)) continue;
    if ((newest[entry.name]?.version ?? 0) <= entry.version) newest[entry.name] = entry;
  }
  const entries: SharedEntry[] = [];
  for (const name in newest) {
    entries.push(newest[name] as SharedEntry);
    pause();
  }
  return apply(emptyState(), version, position, { added: entries, gone: [], isValid: false }, pause);
}

interface ReadChange {
  readonly added: readonly SharedEntry[];
  readonly gone: GoneEntry[];
  /** Whether the entries were found valid by the same code. */
  readonly isValid: boolean;
}

/** @returns false: another version was applied meanwhile, or the entries make no valid state */
function apply(
  state: PolicyState,
  version: number,
  position: Position,
  { added, gone, isValid }: ReadChange,
  pause: Pause,
): boolean {
  const findings = noFindings();
  const before = ownVersion();
  const change = entriesChange({ position, set: added, gone, isValid }, json, findings, pause);
  const prepared = prepareChange(state, change, findings, pause);
  // This worker may have published a version itself meanwhile.
  if (ownVersion() !== before) return false;
  const [problem] = findings.problems;
  if (problem !== undefined) {
    // Who published it was able to read it, so this is a defect. The worker goes on with what it could read.
    ngx.log(
      ngx.ERR,
      "sluice: a worker cannot read a part of what is published: ",
      problem.path,
      ": ",
      problem.expected,
    );
  }
  const isOtherRevision = !isSamePosition(currentState().position, position);
  commitChange(state, prepared);
  replaceState(state);
  if (isOtherRevision) noteChanged();
  expectPolicies(state.policyCount);
  noteApplied(version);
  return true;
}
