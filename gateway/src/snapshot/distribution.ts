// How a snapshot reaches every worker: its text lies in shared memory, in pieces, under a version that only grows; each worker
// looks at the version every few ms, reads the text when it has moved, and notes the version that it applied. A text is
// laid out before its version is told and the one before goes after that: one that does not fit harms nothing.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import type { CompiledSnapshot } from "../../../limiter/src/protocol/read-snapshot.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { inSlices } from "../runtime/slices.ts";
import { expectPolicies } from "../runtime/string-table.ts";
import { currentSnapshot, replaceSnapshot } from "./current.ts";
import { pieceBytes, readPieces } from "./text.ts";

const pieceKey = "snapshot-piece:";
const pieceCountKey = "snapshot-pieces:";
/** The version that is in force. */
const versionKey = "snapshot-published";
/** The last version that anybody has begun to lay out. */
const begunKey = "snapshot-begun";
const appliedKey = "snapshot-applied:";
const lookEverySeconds = 0.01;
const applyPollSeconds = 0.002;

let appliedVersion = 0;
let taking = false;

export function hasPublished(): boolean {
  return stateDict.get(versionKey)[0] !== undefined;
}

/**
 * Lays a snapshot out for all workers, and decides by it in this one.
 *
 * @returns its version, or undefined and why there was no room for it
 */
export function publish(
  pieces: readonly string[],
  snapshot: CompiledSnapshot,
  pause: Pause,
): LuaMultiReturn<[version: number | undefined, failure: string | undefined]> {
  // A number of its own, whatever another worker does meanwhile that takes itself for the owner of the push socket.
  const [version = 1] = stateDict.incr(begunKey, 1, 0);
  const failure = layOut(version, pieces, pause);
  const before = stateDict.get<number>(versionKey)[0] ?? 0;
  if (failure !== undefined || before > version) {
    clear(version);
    return $multi(undefined, failure ?? "a later one was published meanwhile");
  }
  stateDict.set(versionKey, version);
  apply(version, snapshot);
  // Those between are of publishers that ended before they were done.
  for (let gone = math.max(1, before); gone < version; gone++) clear(gone);
  return $multi(version, undefined);
}

/** @returns why there was no room for it */
function layOut(version: number, pieces: readonly string[], pause: Pause): string | undefined {
  stateDict.set(`${pieceCountKey}${version}`, pieces.length);
  for (let place = 0; place < pieces.length; place++) {
    const [stored, failure] = stateDict.safe_set(`${pieceKey}${version}:${place}`, pieces[place] as string);
    if (!stored) return failure;
    pause();
  }
  return undefined;
}

function clear(version: number): void {
  const [count] = stateDict.get<number>(`${pieceCountKey}${version}`);
  if (count === undefined) return;
  stateDict.delete(`${pieceCountKey}${version}`);
  for (let place = 0; place < count; place++) stateDict.delete(`${pieceKey}${version}:${place}`);
}

/** Waits until every worker decides by this version. Yields. @returns false when that took longer than `seconds` */
export function waitUntilApplied(version: number, seconds: number): boolean {
  const deadline = ngx.now() + seconds;
  while (!allApplied(version)) {
    if (ngx.now() >= deadline) return false;
    ngx.sleep(applyPollSeconds);
  }
  return true;
}

export function allApplied(version: number): boolean {
  for (let id = 0; id < ngx.worker.count(); id++) {
    const [applied] = stateDict.get<number>(`${appliedKey}${id}`);
    if (applied === undefined || applied < version) return false;
  }
  return true;
}

/** Takes what is published now, at once, and from here on whatever will be, in slices. For each worker's start. */
export function followPublications(): void {
  if (appliedVersion > 0) noteApplied();
  takePublished(noPause);
  ngx.timer.every(lookEverySeconds, (premature) => {
    if (premature || taking) return;
    if (stateDict.get<number>(versionKey)[0] === appliedVersion) return;
    taking = true;
    const [ok, failure] = pcall(inSlices<void>, publishedBytes(), takePublished);
    taking = false;
    if (!ok) ngx.log(ngx.ERR, "sluice: a published snapshot was not taken: ", `${failure}`);
  });
}

/** At most. */
function publishedBytes(): number {
  const [version = 0] = stateDict.get<number>(versionKey);
  const [count = 0] = stateDict.get<number>(`${pieceCountKey}${version}`);
  return count * pieceBytes;
}

function takePublished(pause: Pause): void {
  const [version] = stateDict.get<number>(versionKey);
  if (version === undefined || version <= appliedVersion) return;
  const [count = 0] = stateDict.get<number>(`${pieceCountKey}${version}`);
  let replaced = count === 0;
  const { snapshot, problems } = readPieces(
    (place) => {
      if (place >= count) return undefined;
      const [piece] = stateDict.get<string>(`${pieceKey}${version}:${place}`);
      if (piece === undefined) replaced = true;
      return piece;
    },
    currentSnapshot(),
    pause,
  );
  // While we read a later one was published, here or by this worker itself: the next look finds what there is to do.
  if (replaced || version <= appliedVersion) return;
  if (snapshot === undefined) {
    // Whoever published it had read it: this is a defect, and the worker keeps what it has.
    ngx.log(ngx.ERR, "sluice: a published snapshot cannot be read: ", problems[0]?.path, ": ", problems[0]?.expected);
  }
  apply(version, snapshot);
}

function apply(version: number, snapshot: CompiledSnapshot | undefined): void {
  const { epoch, revision } = currentSnapshot();
  if (snapshot !== undefined && (snapshot.revision !== revision || snapshot.epoch !== epoch)) {
    replaceSnapshot(snapshot);
    expectPolicies(snapshot.policies.length);
  }
  appliedVersion = version;
  noteApplied();
}

function noteApplied(): void {
  const id = ngx.worker.id();
  // A worker that was started while this one ends, on a reload, bears the same id and has the say.
  if (id !== undefined && !ngx.worker.exiting()) stateDict.set(`${appliedKey}${id}`, appliedVersion);
}
