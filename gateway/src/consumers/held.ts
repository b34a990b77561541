// The consumers that this nginx holds, in a shared dict: one entry for each, which every worker reads directly. Nothing is ever evicted.
// One worker, the owner of the push socket, changes them. A gateway that begins anew goes on with what it held until it has everything;
// each entry has the number of the beginning that set it, so that what did not come again is recognized, and deleted afterwards.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { separator } from "../../../limiter/src/protocol/consumer-lines.ts";
import type { ConsumersHead, HeldConsumers } from "../../../limiter/src/protocol/push-messages.ts";
import { consumersDict } from "../runtime/shared-memory.ts";

// Names of consumers begin with the name of an app, and so never with a slash.
const stateKey = "/state";
const countKey = "/count";
const unstoredKey = "/unstored";

/** complete: it has all up to its position. filling: it has begun anew. cleaning: it has everything again, and what is left over too. */
type Phase = "complete" | "filling" | "cleaning";
const phases: readonly Phase[] = ["complete", "filling", "cleaning"];

export interface ConsumersState {
  readonly epoch: string;
  readonly position: number;
  /** Which beginning it is. */
  readonly beginning: number;
  /** Entries of earlier beginnings are not in force. */
  readonly validFrom: number;
  readonly phase: Phase;
}

const epochWidth = 128;
const pattern = "^(.*)(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d%d)(%d)$";
const nothing: ConsumersState = { epoch: "", position: 0, beginning: 1, validFrom: 1, phase: "complete" };

/** Called at the start: takes the places of what must find room even if the dict is full. @returns whether it holds anything yet */
export function openConsumers(): boolean {
  if (consumersDict === undefined) return false;
  if (consumersDict.get(stateKey)[0] !== undefined) return true;
  writeState(nothing);
  consumersDict.safe_set(countKey, 0);
  consumersDict.safe_set(unstoredKey, 0);
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

/** The text always has the same length, so that it always finds room where it is. */
export function writeState({ epoch, position, beginning, validFrom, phase }: ConsumersState): void {
  const padded = epoch + string.rep(" ", epochWidth - epoch.length);
  const numbers = string.format("%016.0f%010.0f%010.0f%d", position, beginning, validFrom, phases.indexOf(phase));
  consumersDict?.safe_set(stateKey, padded + numbers);
}

/** @returns undefined: this nginx has no memory for consumers */
export function heldConsumers(): HeldConsumers | undefined {
  if (consumersDict === undefined) return undefined;
  const { epoch, position } = consumersState();
  return { epoch, position, count: consumerCount(), unstored: unstoredCount() };
}

export function consumerCount(): number {
  return numberAt(countKey);
}

/** How many consumers found no memory since the gateway began anew. */
export function unstoredCount(): number {
  return numberAt(unstoredKey);
}

function numberAt(key: string): number {
  if (consumersDict === undefined) return 0;
  return consumersDict.get<number>(key)[0] ?? 0;
}

/** @returns the state from which the message goes on; undefined: it does not fit what is held */
export function stateBefore({ epoch, from, fresh }: ConsumersHead): ConsumersState | undefined {
  const state = consumersState();
  if (fresh !== true) return state.epoch === epoch && state.position === from ? state : undefined;
  consumersDict?.safe_set(unstoredKey, 0);
  return { ...state, epoch, position: 0, beginning: state.beginning + 1, phase: "filling" };
}

/** @returns the state after all lines of the message */
export function stateAfter(before: ConsumersState, { to, more }: ConsumersHead): ConsumersState {
  if (before.phase !== "filling" || more) return { ...before, position: to };
  return { ...before, position: to, validFrom: before.beginning, phase: "cleaning" };
}

/** Stores the consumers of some lines. @param from where the first line begins @returns how many lines say nothing */
export function applyLines(text: string, from: number, beginning: number, pause: Pause): number {
  let unread = 0;
  for (let at = from; ; ) {
    const [end] = string.find(text, "\n", at, true);
    if (end === undefined) return at <= text.length ? unread + 1 : unread;
    const sign = string.byte(text, at);
    let tab: number | undefined;
    if (sign === plus) [tab] = string.find(text, separator, at, true);
    if (tab !== undefined && tab > at + 1 && tab < end - 1) {
      set(string.sub(text, at + 1, tab - 1), string.sub(text, tab + 1, end - 1), beginning);
    } else if (sign === minus && end > at + 1) {
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
  let added = 0;
  let unstored = 0;
  for (let at = 1; ; ) {
    const [end] = string.find(text, "\n", at, true);
    if (end === undefined) break;
    const sign = string.byte(text, at);
    if (sign === plus) {
      const [tab] = string.find(text, separator, at, true);
      if (tab !== undefined && tab < end) {
        const name = string.sub(text, at + 1, tab - 1);
        const value = string.sub(text, tab + 1, end - 1);
        const [stored, failure] = dict.safe_add(name, value, 0, beginning);
        if (stored === true) added += 1;
        else if (failure === "exists") set(name, value, beginning);
        else unstored += 1;
      }
    } else if (sign === minus) {
      remove(string.sub(text, at + 1, end - 1));
    }
    at = end + 1;
  }
  dict.incr(countKey, added);
  dict.incr(unstoredKey, unstored);
}

/** "+" and "-". */
const [plus, minus] = [43, 45];

function set(name: string, value: string, beginning: number): void {
  const dict = consumersDict as SharedDict;
  const [before, flags] = dict.get<string>(name);
  if (before === value && flags === beginning) return;
  const [stored] = dict.safe_set(name, value, 0, beginning);
  if (stored === true) {
    if (before === undefined) dict.incr(countKey, 1);
    return;
  }
  // A plan that was left by the consumer must not stay in force.
  dict.delete(name);
  if (before !== undefined) dict.incr(countKey, -1);
  dict.incr(unstoredKey, 1);
}

function remove(name: string): void {
  const dict = consumersDict as SharedDict;
  if (dict.get(name)[0] === undefined) return;
  dict.delete(name);
  dict.incr(countKey, -1);
}

/** Returns whether a line of the log on disk says what is in force. */
export function isInForce(name: string, value: string): boolean {
  return consumersDict !== undefined && consumersDict.get<string>(name)[0] === value;
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

/** "/". */
const slash = 47;
