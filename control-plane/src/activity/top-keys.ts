// The most admitted and the most refused keys of each policy, of the last minute and the last hour. Reports are added up by slots of ten
// seconds and of five minutes, which are forgotten one by one. If there are too many keys for the memory, the oldest slots give way.

import { type Bounds, type KeyReport, MergedKeys, mostOf } from "./merged-keys.ts";

export type KeyResult = "admitted" | "refused";
export type Window = "minute" | "hour";

export interface TopKeys {
  readonly keys: readonly [string, Bounds][];
  /** The most requests that any other key can have had. */
  readonly others: number;
  /** From when on requests are counted. */
  readonly sinceMs: number;
}

/** One slot is not complete yet, so there is one more than the window has. */
const windows = {
  minute: { slotMs: 10_000, slots: 7, keysOfSlot: 400 },
  hour: { slotMs: 300_000, slots: 13, keysOfSlot: 400 },
} as const satisfies Record<Window, unknown>;
const windowNames = ["minute", "hour"] as const;

/** In all slots, with `keysForSlot` for each. They take about 70 MB. */
const defaultMostKeys = 400_000;
/** A slot without keys takes about as much as so many keys. */
const keysForSlot = 2;
/** While more than half of all room is taken, a slot that begins holds but so many. */
const fewKeys = 20;

/** By the number of the slot, counted from 1970. */
type Slots = Map<number, MergedKeys>;

interface Kept {
  readonly window: Window;
  /** The policy and the result. */
  readonly name: string;
  readonly number: number;
}

export class TopKeysOfPolicies {
  /** By policy and result. */
  readonly #slots = { minute: new Map<string, Slots>(), hour: new Map<string, Slots>() };
  /** In the order in which they were made, so that the oldest come first. */
  readonly #kept = new Set<Kept>();
  /** The newest slots that gave way to others. */
  readonly #lost = { minute: -1, hour: -1 };
  readonly #mostKeys: number;
  #held = 0;

  constructor(mostKeys = defaultMostKeys) {
    this.#mostKeys = mostKeys;
  }

  /** How many keys are held, with those that stand for the slots. */
  get held(): number {
    return this.#held;
  }

  /** @param policy names the policy and its key */
  add(policy: string, result: KeyResult, nowMs: number, report: KeyReport): void {
    for (const window of windowNames) {
      const slot = this.#slotOf(window, `${policy} ${result}`, Math.floor(nowMs / windows[window].slotMs));
      const before = slot.size;
      slot.add(report);
      this.#held += slot.size - before;
    }
    for (const oldest of this.#kept) {
      if (this.#held <= this.#mostKeys) break;
      this.#lost[oldest.window] = Math.max(this.#lost[oldest.window], oldest.number);
      this.#drop(oldest);
    }
  }

  /** @param sinceMs slots that ended before are not for who asks */
  top(policy: string, result: KeyResult, window: Window, nowMs: number, limit: number, sinceMs = 0): TopKeys {
    const { slotMs } = windows[window];
    const oldest = Math.max(oldestSlot(window, nowMs), this.#lost[window] + 1, Math.floor(sinceMs / slotMs));
    const slots = [...(this.#slots[window].get(`${policy} ${result}`) ?? [])].filter(([number]) => number >= oldest);
    const { keys, others } = mostOf(
      slots.map(([, slot]) => slot),
      limit,
    );
    return { keys, others, sinceMs: Math.min(nowMs, oldest * slotMs) };
  }

  /** Forgets what is older than the windows. */
  forget(nowMs: number): void {
    for (const kept of this.#kept) if (kept.number < oldestSlot(kept.window, nowMs)) this.#drop(kept);
  }

  #slotOf(window: Window, name: string, number: number): MergedKeys {
    const slots: Slots = this.#slots[window].get(name) ?? new Map();
    const known = slots.get(number);
    if (known !== undefined) return known;
    const slot = new MergedKeys(this.#held < this.#mostKeys / 2 ? windows[window].keysOfSlot : fewKeys);
    this.#slots[window].set(name, slots.set(number, slot));
    this.#kept.add({ window, name, number });
    this.#held += keysForSlot;
    return slot;
  }

  #drop(kept: Kept): void {
    const { window, name, number } = kept;
    const slots = this.#slots[window].get(name);
    this.#held -= keysForSlot + (slots?.get(number)?.size ?? 0);
    slots?.delete(number);
    if (slots?.size === 0) this.#slots[window].delete(name);
    this.#kept.delete(kept);
  }
}

function oldestSlot(window: Window, nowMs: number): number {
  const { slotMs, slots } = windows[window];
  return Math.floor(nowMs / slotMs) - slots + 1;
}
