// The most admitted and the most refused keys of each policy, of the last minute and the last hour. Reports are added up by slots of ten
// seconds and of five minutes, which are forgotten one by one.

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

/** Beyond so many keys in all, which take about 60 MB, a slot that begins holds but a few. */
const defaultMostKeys = 400_000;
const fewKeys = 20;
/** Of so many policies. Those whose reports come first have room. */
const mostPolicies = 20_000;

/** By the number of the slot, counted from 1970. */
type Slots = Map<number, MergedKeys>;

interface KeysOfPolicy {
  readonly minute: Slots;
  readonly hour: Slots;
}

export class TopKeysOfPolicies {
  /** By policy and result. */
  readonly #policies = new Map<string, KeysOfPolicy>();
  readonly #mostKeys: number;
  #held = 0;

  constructor(mostKeys = defaultMostKeys) {
    this.#mostKeys = mostKeys;
  }

  add(policy: string, result: KeyResult, nowMs: number, report: KeyReport): void {
    const name = `${policy} ${result}`;
    let keys = this.#policies.get(name);
    if (keys === undefined) {
      if (this.#policies.size >= 2 * mostPolicies) return;
      keys = { minute: new Map(), hour: new Map() };
      this.#policies.set(name, keys);
    }
    for (const window of windowNames) {
      const { slotMs, keysOfSlot } = windows[window];
      const number = Math.floor(nowMs / slotMs);
      let slot = keys[window].get(number);
      if (slot === undefined) {
        this.#forgetSlots(keys[window], window, nowMs);
        slot = new MergedKeys(this.#held < this.#mostKeys ? keysOfSlot : fewKeys);
        keys[window].set(number, slot);
      }
      const before = slot.size;
      slot.add(report);
      this.#held += slot.size - before;
    }
  }

  top(policy: string, result: KeyResult, window: Window, nowMs: number, limit: number): TopKeys {
    const { slotMs } = windows[window];
    const oldest = oldestSlot(window, nowMs);
    const slots = [...(this.#policies.get(`${policy} ${result}`)?.[window] ?? [])].filter(
      ([number]) => number >= oldest,
    );
    const { keys, others } = mostOf(
      slots.map(([, slot]) => slot),
      limit,
    );
    return { keys, others, sinceMs: oldest * slotMs };
  }

  /** Forgets what is older than the windows. */
  forget(nowMs: number): void {
    for (const [name, keys] of this.#policies) {
      for (const window of windowNames) this.#forgetSlots(keys[window], window, nowMs);
      if (keys.minute.size + keys.hour.size === 0) this.#policies.delete(name);
    }
  }

  #forgetSlots(slots: Slots, window: Window, nowMs: number): void {
    const oldest = oldestSlot(window, nowMs);
    for (const [number, { size }] of slots) {
      if (number >= oldest) continue;
      slots.delete(number);
      this.#held -= size;
    }
  }
}

function oldestSlot(window: Window, nowMs: number): number {
  const { slotMs, slots } = windows[window];
  return Math.floor(nowMs / slotMs) - slots + 1;
}
