// Distributes a snapshot to every worker. Its text is in shared memory, in pieces, under a version that only grows. Each worker
// checks the version every few ms, reads the text if the version has changed, and records the version that it applied. A text is
// written completely before its version is published, and the text before it is removed after that. So a text that does not fit
// does no harm.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import type { CompiledSnapshot } from "../../../limiter/src/protocol/load-snapshot.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { inSlices } from "../runtime/slices.ts";
import { expectPolicies } from "../runtime/string-table.ts";
import { currentSnapshot, replaceSnapshot } from "./current.ts";
import { pieceBytes, readPieces } from "./text.ts";

const pieceKey = "snapshot-piece:";
const pieceCountKey = "snapshot-pieces:";
/** The version in force. */
const versionKey = "snapshot-published";
/** The last version that any worker has begun to write. */
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
 * Writes a snapshot to shared memory for all workers, and makes this worker use it.
 *
 * @returns its version; or undefined, and why it could not be published
 */
export function publish(
  pieces: readonly string[],
  snapshot: CompiledSnapshot,
  pause: Pause,
): LuaMultiReturn<[version: number | undefined, failure: string | undefined]> {
  // This makes the version unique, even if another worker also takes itself for the owner of the push socket.
  const [version = 1] = stateDict.incr(begunKey, 1, 0);
  const failure = layOut(version, pieces, pause);
  const before = stateDict.get<number>(versionKey)[0] ?? 0;
  if (failure !== undefined || before > version) {
    clear(version);
    return $multi(undefined, failure ?? "a later one was published meanwhile");
  }
  stateDict.set(versionKey, version);
  apply(version, snapshot);
  // Versions in between belong to publishers that ended before they were done.
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

/** Waits until every worker uses this version. Yields. @returns false if that took longer than `seconds` */
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

/** Called when a worker starts. Applies the published snapshot at once, and later ones in slices. */
export function followPublications(): void {
  if (appliedVersion > 0) noteApplied();
  takePublished(noPause);
  ngx.timer.every(lookEverySeconds, (premature) => {
    if (premature || taking) return;
    if (stateDict.get<number>(versionKey)[0] === appliedVersion) return;
    taking = true;
    const [ok, failure] = pcall(inSlices<void>, publishedBytes(), takePublished);
    taking = false;
    if (!ok) ngx.log(ngx.ERR, "sluice: a worker could not apply a published snapshot: ", `${failure}`);
  });
}

/** An upper bound of the text's length. */
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
  // A later snapshot was published while this one was read, possibly by this worker itself. The next check applies it.
  if (replaced || version <= appliedVersion) return;
  if (snapshot === undefined) {
    // The publisher was able to read it, so this is a defect. The worker keeps its current snapshot.
    ngx.log(
      ngx.ERR,
      "sluice: a worker keeps its snapshot, because it cannot read the published one: ",
      problems[0]?.path,
      ": ",
      problems[0]?.expected,
    );
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
  // During a reload, a worker that starts has the same id as one that ends. The new one's record counts.
  if (id !== undefined && !ngx.worker.exiting()) stateDict.set(`${appliedKey}${id}`, appliedVersion);
}
