// How a snapshot reaches every worker: its text lies in shared memory under a version that only grows; each worker
// looks at the version every few ms, reads the text when it has moved, and notes the version that it applied. A text is
// laid out before its version is told and the one before goes after that: one that does not fit harms nothing.

import { readSnapshot, type SnapshotReading } from "../../../limiter/src/policy/read-snapshot.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { currentSnapshot, replaceSnapshot } from "./current.ts";

const textKey = "snapshot:";
const versionKey = "snapshot-version";
const appliedKey = "snapshot-applied:";
const lookEverySeconds = 0.01;
const applyPollSeconds = 0.002;

let appliedVersion = 0;

/** Text → compiled snapshot, or everything that is wrong with it. */
export function readSnapshotText(text: string): SnapshotReading {
  const [message, failure] = cjson.decode<unknown>(text);
  if (message === undefined) {
    return { problems: [{ path: "", expected: "JSON", got: failure ?? "something else" }] };
  }
  return readSnapshot(message);
}

export function hasPublished(): boolean {
  return stateDict.get(versionKey)[0] !== undefined;
}

/** Lays a validated snapshot out for all workers. @returns its version, or undefined and why there was no room for it */
export function publish(text: string): LuaMultiReturn<[number | undefined, string | undefined]> {
  const version = (stateDict.get<number>(versionKey)[0] ?? 0) + 1;
  const [stored, failure] = stateDict.safe_set(`${textKey}${version}`, text);
  if (!stored) return $multi(undefined, failure);
  stateDict.set(versionKey, version);
  stateDict.delete(`${textKey}${version - 1}`);
  return $multi(version, undefined);
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

/** Takes what is published now, and from here on whatever will be. For each worker's start. */
export function followPublications(): void {
  takePublished();
  ngx.timer.every(lookEverySeconds, (premature) => {
    if (!premature) takePublished();
  });
}

function takePublished(): void {
  const [version] = stateDict.get<number>(versionKey);
  if (version === undefined || version === appliedVersion) return;
  const [text] = stateDict.get<string>(`${textKey}${version}`);
  // Replaced between our two looks: the next look finds the newer one.
  if (text === undefined) return;
  const { snapshot, problems } = readSnapshotText(text);
  if (snapshot === undefined) {
    // Whoever published it had read it: this is a defect, and the worker keeps what it has.
    ngx.log(ngx.ERR, "sluice: a published snapshot cannot be read: ", problems[0]?.path, ": ", problems[0]?.expected);
  } else if (snapshot.revision !== currentSnapshot().revision || snapshot.epoch !== currentSnapshot().epoch) {
    replaceSnapshot(snapshot);
  }
  appliedVersion = version;
  // A worker that was started while this one ends, on a reload, bears the same id and has the say.
  if (!ngx.worker.exiting()) stateDict.set(`${appliedKey}${ngx.worker.id()}`, version);
}
