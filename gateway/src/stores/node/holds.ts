// Slots that callers hold from one request to the next, in this nginx's shared memory. Only this gateway renews and releases them.

import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchMs } from "../../runtime/stopwatch.ts";
import { holdMark, limitMark, noteLifeMs } from "../hold-marks.ts";
import type { HoldStore, NamedHold } from "../store.ts";
import { slabOfCell } from "./counter-cells.ts";
import { isCalm, takeFromReserve } from "./counter-memory.ts";
import { acquireAll, releaseAll } from "./counter-places.ts";
import { lockOf, mustAgree, refundCells, renewCell } from "./node-counters.ts";

/** By the limit's mark: the moment that its slots were taken or last renewed in. Negative in the overflow. */
type HeldAt = Record<string, number | undefined>;

interface Note {
  readonly heldAt: HeldAt;
  /** When the hold ends that is not renewed, by the stopwatch. 0: when its slots do. */
  readonly untilMs: number;
}

export const holdsOnNode: HoldStore = {
  note: (hold, moments) => {
    const heldAt: HeldAt = {};
    hold.limits.forEach((limit, i) => {
      heldAt[limitMark(limit)] = moments[i];
    });
    return store(hold, heldAt);
  },
  renew: (hold) => underLock(hold, renew),
  release: (hold) => underLock(hold, release),
  end: (hold) => underLock(hold, end),
};

/** Whoever finds a hold under the lock of its counters is the only one who does. */
function underLock(hold: NamedHold, act: (this: void, hold: NamedHold, note: Note) => boolean): boolean {
  const { policy, keyValues } = hold;
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const note = load(hold);
  const done = note !== undefined && act(hold, note);
  if (held !== undefined) releaseAll(held);
  return done;
}

/** All slots are renewed, or none is left. Those of limits that the policy has no more count nowhere. */
function renew(this: void, hold: NamedHold, note: Note): boolean {
  if (isOver(note)) {
    release(hold, note);
    return false;
  }
  const { heldAt } = note;
  const { policy, limits, keyValues } = hold;
  const renewedAt: HeldAt = {};
  let any = false;
  let lost = false;
  for (const limit of limits) {
    const mark = limitMark(limit);
    const moment = heldAt[mark];
    if (moment === undefined) continue;
    any = true;
    renewedAt[mark] = renewCell(policy, limit, keyValues, moment);
    if (renewedAt[mark] === undefined) lost = true;
  }
  if (!any) return false;
  if (!lost && store(hold, renewedAt)) return true;
  countersDict.delete(keyOf(hold));
  free(hold, renewedAt);
  return false;
}

function release(this: void, hold: NamedHold, note: Note): boolean {
  countersDict.delete(keyOf(hold));
  free(hold, note.heldAt);
  return !isOver(note);
}

function end(this: void, hold: NamedHold, note: Note): boolean {
  if (!isOver(note)) return false;
  release(hold, note);
  return true;
}

function isOver({ untilMs }: Note): boolean {
  return untilMs > 0 && stopwatchMs() >= untilMs;
}

function free({ policy, limits, keyValues }: NamedHold, heldAt: HeldAt): void {
  const held: CompiledLimit[] = [];
  const moments: number[] = [];
  for (const limit of limits) {
    const moment = heldAt[limitMark(limit)];
    if (moment === undefined) continue;
    held.push(limit);
    moments.push(moment);
  }
  if (held.length > 0) refundCells(held, keyValues, policy.policy.cost, moments);
}

function keyOf({ name }: NamedHold): string {
  return `hold:${name}`;
}

function store(hold: NamedHold, heldAt: HeldAt): boolean {
  const key = keyOf(hold);
  const lifeSeconds = noteLifeMs(hold) / 1000;
  const { ttlMs } = hold;
  let text = `${holdMark(hold)} ${string.format("%.0f", ttlMs === undefined ? 0 : stopwatchMs() + ttlMs)}`;
  for (const mark in heldAt) text += ` ${mark} ${string.format("%.0f", heldAt[mark])}`;
  // Many holds take no memory from counters of other policies.
  if (!isCalm() && countersDict.get(key)[0] === undefined) {
    if (!takeFromReserve(hold.policy.counterPrefix, slabOfCell(key, text.length), lifeSeconds)) return false;
  }
  const [stored, failure] = countersDict.safe_set(key, text, lifeSeconds);
  if (stored !== true) warnSparingly("a caller's slots are not noted, because there is no memory", `${failure}`);
  return stored === true;
}

/** @returns undefined: nothing is held under this name, or something else */
function load(hold: NamedHold): Note | undefined {
  const [text] = countersDict.get<string>(keyOf(hold));
  if (text === undefined) return undefined;
  const words = text.split(" ");
  if (words[0] !== holdMark(hold)) return undefined;
  const heldAt: HeldAt = {};
  for (let i = 2; i + 1 < words.length; i += 2) heldAt[words[i] as string] = tonumber(words[i + 1]);
  return { heldAt, untilMs: tonumber(words[1]) as number };
}
