// The consumers that this nginx holds, in a shared dict: one entry for each, which every worker reads directly. Nothing is ever evicted.
// One worker, the owner of the push socket, changes them. A gateway that begins anew goes on with what it held until it has everything;
// each entry has the number of the beginning that set it, so that what did not come again is recognized, and deleted afterwards. Writing the
// log on disk anew has such a number too, and gives it to each entry of which it has kept a line: so it keeps no second one.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { separator } from "../../../limiter/src/protocol/consumer-lines.ts";
import type { ConsumersHead, HeldConsumers } from "../../../limiter/src/protocol/push-messages.ts";
import { consumersDict } from "../runtime/shared-memory.ts";
import {
  appOf,
  beginShares,
  countKey,
  endShares,
  hasRoomFor,
  lackingOfApps,
  lookAtRoom,
  mayTake,
  memoryOf,
  noteFailed,
  noteTaken,
  openShares,
  publishUnstored,
  takeOfShare,
  unstoredCount,
} from "./shares.ts";

// Names of consumers begin with the name of an app, and so never with a slash.
const stateKey = "/state";
const numberKey = "/number";

/** complete: it has all up to its position. filling: it has begun anew. cleaning: it has everything again, and what is left over too. */
type Phase = "complete" | "filling" | "cleaning";
const phases: readonly Phase[] = ["complete", "filling", "cleaning"];

export interface ConsumersState {
  readonly epoch: string;
  readonly position: number;
  /** Its number. */
  readonly beginning: number;
  /** Entries of earlier beginnings are not in force. */
  readonly validFrom: number;
  readonly phase: Phase;
}

/** More than any control plane's epoch has. */
export const mostEpochBytes = 128;
const pattern = "^(.*)(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d%d)(%d)$";
const nothing: ConsumersState = { epoch: "", position: 0, beginning: 1, validFrom: 1, phase: "complete" };

/** Called at the start: takes the places of what must find room even if the dict is full. @returns whether it holds anything yet */
export function openConsumers(): boolean {
  if (consumersDict === undefined) return false;
  if (consumersDict.get(stateKey)[0] !== undefined) {
    if (consumersDict.get(numberKey)[0] !== undefined) return true;
    // An earlier version of Sluice, before a reload, has not counted what each app has, or has numbered beginnings alone.
    consumersDict.flush_all();
    consumersDict.flush_expired();
  }
  writeState(nothing);
  consumersDict.safe_set(numberKey, nothing.beginning);
  consumersDict.safe_set(countKey, 0);
  openShares();
  return false;
}

export function consumersState(): ConsumersState {
  if (consumersDict === undefined) return nothing;
  const [text] = consumersDict.get<string>(stateKey);
  if (text === undefined) return nothing;
  const [epoch, position, beginning, validFrom, phase] = string.match(text, pattern);
  if (epoch === undefined) return nothing;
  const [trimmed] = string.match(epoch, "^(.-) *$");
  return {
    epoch: trimmed ?? "",
    position: tonumber(position ?? "") ?? 0,
    beginning: tonumber(beginning ?? "") ?? 1,
    validFrom: tonumber(validFrom ?? "") ?? 1,
    phase: phases[tonumber(phase ?? "") ?? 0] ?? "complete",
  };
}

/** What `writeState` and the log on disk can have. */
export function isPosition(value: unknown): boolean {
  return typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER && value % 1 === 0;
}

/** The text always has the same length, so that it always finds room where it is. */
export function writeState({ epoch, position, beginning, validFrom, phase }: ConsumersState): void {
  const padded = epoch + string.rep(" ", mostEpochBytes - epoch.length);
  const numbers = string.format("%016.0f%010.0f%010.0f%d", position, beginning, validFrom, phases.indexOf(phase));
  consumersDict?.safe_set(stateKey, padded + numbers);
}

/** @returns undefined: this nginx has no memory for consumers */
export function heldConsumers(): HeldConsumers | undefined {
  if (consumersDict === undefined) return undefined;
  const { epoch, position } = consumersState();
  return { epoch, position, count: consumerCount(), unstored: unstoredCount(), lacking: lackingOfApps() };
}

export function consumerCount(): number {
  if (consumersDict === undefined) return 0;
  return consumersDict.get<number>(countKey)[0] ?? 0;
}

/** @returns the state from which the message goes on; undefined: it does not fit what is held */
export function stateBefore({ epoch, from, fresh }: ConsumersHead): ConsumersState | undefined {
  const state = consumersState();
  // The control plane goes by the epoch that this gateway has said. It may have another one by now, of the same history.
  if (fresh !== true) return state.position === from ? { ...state, epoch } : undefined;
  beginShares();
  return { ...state, epoch, position: 0, beginning: nextNumber(), phase: "filling" };
}

/** Returns a number that is higher than that of every beginning, and of every time that the log was written anew. */
export function nextNumber(): number {
  return (consumersDict as SharedDict).incr(numberKey, 1)[0] as number;
}

/** @returns the state after all lines of the message */
export function stateAfter(before: ConsumersState, { to, more }: ConsumersHead): ConsumersState {
  if (before.phase !== "filling" || more) return { ...before, position: to };
  endShares();
  return { ...before, position: to, validFrom: before.beginning, phase: "cleaning" };
}

/** Stores the consumers of some lines. @param from where the first line begins @returns how many lines say nothing */
export function applyLines(text: string, from: number, beginning: number, pause: Pause): number {
  let unread = 0;
  lookAtRoom();
  for (let at = from; ; ) {
    const [end] = string.find(text, "\n", at, true);
    if (end === undefined) return at <= text.length ? unread + 1 : unread;
    const sign = string.byte(text, at);
    let tab: number | undefined;
    if (sign === plus) [tab] = string.find(text, separator, at, true);
    if (tab !== undefined && tab > at + 1 && tab < end - 1 && string.byte(text, at + 1) !== slash) {
      set(string.sub(text, at + 1, tab - 1), string.sub(text, tab + 1, end - 1), beginning);
    } else if (sign === minus && end > at + 1 && string.byte(text, at + 1) !== slash) {
      remove(string.sub(text, at + 1, end - 1));
    } else {
      unread += 1;
    }
    at = end + 1;
    pause();
  }
}

/** Stores the consumers of lines at the start, when no worker runs yet: most are new, and each takes one access to shared memory. */
export function loadLines(text: string, beginning: number): void {
  const dict = consumersDict as SharedDict;
  let app = "";
  let added = 0;
  let bytes = 0;
  const noteAdded = () => {
    if (added === 0) return;
    noteTaken(app, added, bytes);
    dict.incr(countKey, added);
    added = 0;
    bytes = 0;
  };
  lookAtRoom();
  for (let at = 1; ; ) {
    const [end] = string.find(text, "\n", at, true);
    if (end === undefined) break;
    const sign = string.byte(text, at + 1) === slash ? undefined : string.byte(text, at);
    if (sign === plus) {
      const [tab] = string.find(text, separator, at, true);
      if (tab !== undefined && tab < end) {
        const name = string.sub(text, at + 1, tab - 1);
        const value = string.sub(text, tab + 1, end - 1);
        const itsApp = appOf(name);
        if (itsApp !== app) {
          noteAdded();
          app = itsApp;
        }
        const size = memoryOf(name.length, value.length);
        if (hasRoomFor(size) && dict.safe_add(name, value, 0, beginning)[0] === true) {
          added += 1;
          bytes += size;
        } else {
          noteAdded();
          set(name, value, beginning);
        }
      }
    } else if (sign === minus) {
      noteAdded();
      remove(string.sub(text, at + 1, end - 1));
    }
    at = end + 1;
  }
  noteAdded();
  publishUnstored();
}

/** "+", "-" and "/". */
const [plus, minus, slash] = [43, 45, 47];

function set(name: string, value: string, beginning: number): void {
  const dict = consumersDict as SharedDict;
  const app = appOf(name);
  const [before, flags] = dict.get<string>(name);
  const bytes = memoryOf(name.length, value.length);
  const bytesBefore = before === undefined ? 0 : memoryOf(name.length, before.length);
  const isNew = before === undefined ? 1 : 0;
  if (takeOfShare(app, bytes)) {
    if (before === value && flags === beginning) return;
    const hasRoom = bytes <= bytesBefore || mayTake(app, bytes - bytesBefore);
    if (hasRoom && noteTaken(app, isNew, bytes - bytesBefore)) {
      if (dict.safe_set(name, value, 0, beginning)[0] === true) {
        if (isNew === 1) dict.incr(countKey, 1);
        return;
      }
      noteTaken(app, -isNew, bytesBefore - bytes);
    }
  }
  // A plan that was left by the consumer must not stay in force.
  forget(name, before);
  noteFailed(app);
}

function remove(name: string): void {
  forget(name, (consumersDict as SharedDict).get<string>(name)[0]);
}

/** @param value what the dict has; undefined: nothing */
function forget(name: string, value: string | undefined): void {
  if (value === undefined) return;
  const dict = consumersDict as SharedDict;
  dict.delete(name);
  dict.incr(countKey, -1);
  noteTaken(appOf(name), -1, -memoryOf(name.length, value.length));
}

/**
 * Returns whether a line of the log on disk says what is in force, and no line was kept before that does.
 *
 * @param number of this time that the log is written anew
 */
export function isToKeep(name: string, value: string, number: number): boolean {
  const dict = consumersDict as SharedDict;
  const [held, flags = 0] = dict.get<string>(name);
  if (held !== value || flags === number) return false;
  // A gateway that has begun anew meanwhile must still know what came again.
  if (flags < number) dict.safe_set(name, value, 0, number);
  return true;
}

const keysAtOnce = 200;

/**
 * Deletes what did not come again after a beginning. The dict lists those keys first that were used least recently, and looking at one
 * makes it the most recently used: so each list has other keys, until all were looked at. Those that requests use meanwhile may be seen
 * late: requests do not find what is not in force.
 */
export function deleteLeftOver(goesOn: (this: void) => boolean, pause: Pause): void {
  const dict = consumersDict;
  const state = consumersState();
  if (dict === undefined || state.phase !== "cleaning") return;
  const most = 2 * consumerCount() + keysAtOnce;
  for (let seen = 0; seen < most; ) {
    const names = dict.get_keys(keysAtOnce);
    if (names.length === 0) break;
    for (const name of names) {
      const [, flags] = dict.get(name);
      if (string.byte(name) !== slash && (flags ?? 0) < state.validFrom) remove(name);
    }
    seen += names.length;
    pause();
    if (!goesOn()) return;
  }
  // The gateway may have begun anew meanwhile.
  const now = consumersState();
  if (now.phase === "cleaning") writeState({ ...now, phase: "complete" });
}
