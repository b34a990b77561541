// Tests in Node the reader of snapshots, which has the same source as the gateway's: it must never throw, and must read by
// lines what it reads as one document.

import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { noPause } from "../../limiter/src/basics/pause.ts";
import { loadSnapshot, loadSnapshotLines, type SnapshotLoad } from "../../limiter/src/protocol/load-snapshot.ts";
import { changedBytes } from "./hostile.ts";
import { changedSnapshot, changedSnapshots, goodSnapshot, textDamage } from "./snapshot-texts.ts";
import { Fault, type Fuzzer, type Target } from "./target.ts";

const good = { epoch: "good", revision: 5, quota: 1234 };

const texts = fc.oneof(
  { weight: 3, arbitrary: changedSnapshots.map((snapshot) => changedSnapshot(good, snapshot)) },
  {
    weight: 2,
    arbitrary: textDamage.map((by) => changedBytes(Buffer.from(goodSnapshot(good)), ...by).toString("utf8")),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(changedSnapshots, textDamage)
      .map(([snapshot, by]) => changedBytes(Buffer.from(changedSnapshot(good, snapshot)), ...by).toString("utf8")),
  },
);

export const readingFuzzer: Fuzzer<string> = {
  inputs: texts,
  async play(text) {
    // Other fuzzers in this process get a turn.
    await setImmediate();
    assess(text);
  },
  show: (text) => JSON.stringify(text),
};

export const snapshotLoad: Target = {
  name: "snapshot-load",
  worker: "gateway",
  start: async () => readingFuzzer as Fuzzer<unknown>,
};

function assess(text: string): void {
  const before = readByLines(goodSnapshot(good), undefined)?.snapshot;
  if (before === undefined) throw new Fault("the good snapshot was not read");
  const lines = readByLines(text, undefined);
  // Unchanged lines are taken from the previous reading, and the result must be the same.
  const linesAgain = readByLines(text, before);
  if (!isDeepStrictEqual(reportedOf(lines), reportedOf(linesAgain)))
    throw new Fault("another reading after a snapshot with the same lines");
  const value = decoded(text);
  if (lines === undefined) {
    if (value !== undefined) loadSnapshot(value);
    return;
  }
  // A reading by lines reports a broken head before what follows it is read.
  if (value === undefined) {
    if (lines.problems.length === 0) throw new Fault("read by lines what is not JSON");
    return;
  }
  const whole = reportedOf(loadSnapshot(value));
  if (!isDeepStrictEqual(reportedOf(lines), whole)) {
    throw new Fault(
      `by lines ${JSON.stringify(reportedOf(lines)).slice(0, 300)}, in one ${JSON.stringify(whole).slice(0, 300)}`,
    );
  }
}

function readByLines(text: string, previous: Parameters<typeof loadSnapshotLines>[2]): SnapshotLoad | undefined {
  return loadSnapshotLines((place) => (place === 0 ? text : undefined), decoded, previous, noPause);
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @returns the reading without what only one of the ways keeps for the next time */
function reportedOf(reading: SnapshotLoad | undefined): unknown {
  if (reading?.snapshot === undefined) return reading?.problems;
  const { epoch, revision, policies, bans, callers } = reading.snapshot;
  return { epoch, revision, policies: policies.map(({ app, policy }) => ({ app, policy })), bans, callers };
}
