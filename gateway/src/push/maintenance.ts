// What the worker that receives changes does while no change waits: it removes bans and tokens that are over, deletes what no worker
// needs any more, and writes the log on disk anew when it has grown long.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import type { EntryText } from "../../../limiter/src/protocol/read-frame.ts";
import { newChange, prepareChange } from "../../../limiter/src/state/change.ts";
import { nameOfBan, nameOfCaller } from "../../../limiter/src/state/entries.ts";
import type { Position } from "../../../limiter/src/state/policy-state.ts";
import { besideRequests } from "../runtime/slices.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { Settings } from "../settings.ts";
import { currentState, hasSnapshot } from "../snapshot/current.ts";
import { appendToLog, needsRewriting, rewriteLog } from "../snapshot/disk.ts";
import { deleteReplaced, heldEntries, isPublishing, publish } from "../snapshot/publication.ts";
import { publishedVersion } from "../snapshot/shared-entries.ts";

const sweepEverySeconds = 60;
/** The control plane's clock may be behind this machine's. */
const overForSeconds = 60;

/** By the stopwatch, which begins when the machine starts. */
let sweptAtSeconds = -sweepEverySeconds;

/** Called in each turn of the worker that receives changes. Yields. @param isWaiting returns whether a change waits */
export function maintain(settings: Settings, isWaiting: (this: void) => boolean): void {
  if (!isPublishing()) return;
  deleteReplaced();
  const { position } = currentState();
  if (!isWaiting() && hasSnapshot() && stopwatchSeconds() >= wholeAgainSeconds && needsRewriting(position) !== "no") {
    besideRequests((pause) => rewrite(settings, () => !isWaiting() && !ngx.worker.exiting(), pause));
  }
  if (stopwatchSeconds() - sweptAtSeconds < sweepEverySeconds || isWaiting()) return;
  sweptAtSeconds = stopwatchSeconds();
  besideRequests(removeWhatIsOver);
}

/** Stores a change on disk. @param before where the state was from before the change */
export function storeChange(
  settings: Settings,
  before: Position,
  set: readonly EntryText[],
  gone: readonly string[],
  pause: Pause,
): void {
  const { position } = currentState();
  const isAppended = appendToLog(settings.gatewayDir, before, set, gone, position, pause);
  if (!isAppended || needsRewriting(position) === "now") rewrite(settings, () => true, pause);
}

function rewrite({ gatewayDir }: Settings, goesOn: (this: void) => boolean, pause: Pause): void {
  const { position, policyCount } = currentState();
  let isWhole = true;
  const lack = (what: string) => {
    // Another worker that publishes has deleted what it does not need.
    if (isWhole && isPublishing()) {
      const dict = "shared memory has lost a part of the policies";
      ngx.log(
        ngx.ERR,
        "sluice: push: ",
        dict,
        " (",
        what,
        "): the log on disk stays as it is, and a snapshot is asked for",
      );
      lacksEntries = true;
      wholeAgainSeconds = stopwatchSeconds() + lossEverySeconds;
    }
    isWhole = false;
  };
  const next = entryByEntry(policyCount, lack);
  rewriteLog(gatewayDir, next, position, () => isWhole && goesOn(), pause);
}

/** Whether entries were missing when the log was to be written. */
let lacksEntries = false;
/** A snapshot repairs it. Until then, it is not looked for all the time. */
let wholeAgainSeconds = 0;
const lossEverySeconds = 10;

/** @returns whether the control plane must send everything, because shared memory has lost a part. Asked once for each loss */
export function takeLoss(): boolean {
  const isLost = lacksEntries;
  lacksEntries = false;
  return isLost;
}

/** @param lack called with what is missing, which ends it */
function entryByEntry(
  policyCount: number,
  lack: (this: void, what: string) => void,
): (this: void) => EntryText | undefined {
  const held = heldEntries();
  const names: string[] = [];
  held.eachName((name) => names.push(name));
  let policies = 0;
  for (const name of names) if (name.startsWith("p:")) policies += 1;
  if (policies !== policyCount) {
    lack(`${string.format("%d", policies)} of ${string.format("%d", policyCount)} policies are there`);
  }
  let place = 0;
  return () => {
    const name = names[place];
    if (name === undefined) return undefined;
    place += 1;
    const text = held.textOf(name);
    if (text === undefined) {
      lack(name);
      return undefined;
    }
    return { name, text };
  };
}

/** The control plane does not say when a ban or a token is over: everybody knows. */
function removeWhatIsOver(pause: Pause): void {
  const preparedOn = publishedVersion();
  if (!isPublishing()) return;
  const { bans, callers, position } = currentState();
  const overAt = ngx.now() - overForSeconds;
  const change = newChange(position);
  const gone: string[] = [];
  for (const id in bans.byId) {
    pause();
    if ((bans.byId[id]?.untilSeconds ?? overAt) >= overAt) continue;
    change.gone.push({ ban: id });
    gone.push(nameOfBan({ id }));
  }
  for (const sha256 in callers) {
    pause();
    if ((callers[sha256]?.expiresAtSeconds ?? math.huge) >= overAt) continue;
    change.gone.push({ caller: sha256 });
    gone.push(nameOfCaller({ sha256 }));
  }
  if (gone.length === 0) return;
  const prepared = prepareChange(currentState(), change, noFindings(), pause);
  // If that fails, it is tried again a minute later.
  if (isPublishing()) publish(prepared, preparedOn, [], gone, pause);
}
