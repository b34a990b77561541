// The most admitted and the most refused keys of each policy, of the last minute and the last hour. Reports are added up by slots of ten
// seconds and of five minutes, which are forgotten one by one. If there are too many keys for the memory, the oldest slots give way.
//
// Slots of five minutes are kept in the database. Each control plane keeps what its own gateways reported, and reads what others kept: so
// all slots are parts of the whole, and none of them has anything of another.

import { type Bounds, type KeptKeys, type KeyReport, MergedKeys, mostOf } from "./merged-keys.ts";

export type KeyResult = "admitted" | "refused";
export type Window = "minute" | "hour";

export interface TopKeys {
  readonly keys: readonly [string, Bounds][];
  /** The most requests that any other key can have had. */
  readonly others: number;
  /** From when on requests are counted. */
  readonly sinceMs: number;
  /** Whether nothing that was counted since then was lost. */
  readonly isComplete: boolean;
}

/** Five minutes of a policy and a result. */
export interface HourSlot {
  /** "app/policy", the policy's key or its hash, and the result. */
  readonly name: string;
  /** Counted from 1970 by this control plane's clock. */
  readonly number: number;
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

/** What the database keeps of a slot takes 4 KB at most with its name: so many keys, or fewer if they are long. */
const mostKeysKept = 50;
const mostBytesKept = 3_000;

/** By number and source. */
type Slots = Map<string, Slot>;

interface Slot extends HourSlot {
  readonly window: Window;
  /** The control plane whose gateways reported it; empty: this one. */
  readonly source: string;
  keys: MergedKeys;
}

const own = "";

export class TopKeysOfPolicies {
  /** By policy and result. */
  readonly #slots = { minute: new Map<string, Slots>(), hour: new Map<string, Slots>() };
  /** By when they begin, in ms: some dozens of times. */
  readonly #kept = new Map<number, Set<Slot>>();
  /** The newest slots that gave way to others. */
  readonly #lost = { minute: -1, hour: -1 };
  /** What was counted before is not known. */
  readonly #knownSinceMs = { minute: 0, hour: 0 };
  /** The end of the last time of which something was lost; by app, if it was lost of one app. */
  readonly #lostUntilMs = { minute: 0, hour: 0 };
  readonly #lostOfAppUntilMs = new Map<string, number>();
  /** Own slots of the hour that have changed since they were last taken, those that have waited longest first. */
  readonly #changed = new Set<Slot>();
  #droppedUntilMs = 0;
  /** The own slot of the hour to which something was added last. */
  #current = 0;
  #isSilent = false;
  readonly #mostKeys: number;
  #held = 0;

  constructor(mostKeys = defaultMostKeys) {
    this.#mostKeys = mostKeys;
  }

  /** How many keys are held, with those that stand for the slots. */
  get held(): number {
    return this.#held;
  }

  /** Of the own slots that gave way before all of them was taken, the last one ends then. */
  get droppedUntilMs(): number {
    return this.#droppedUntilMs;
  }

  /**
   * @param policy names the policy and its key
   * @param isOwn this control plane's own gateway reports it. What others relay is counted in the last minute alone: they keep the hour.
   */
  add(policy: string, result: KeyResult, nowMs: number, report: KeyReport, isOwn = true): void {
    for (const window of isOwn ? windowNames : (["minute"] as const)) {
      const number = Math.floor(nowMs / windows[window].slotMs);
      const slot = this.#slotOf(window, nameOf(policy, result), number, own);
      const before = slot.keys.size;
      slot.keys.add(report);
      this.#held += slot.keys.size - before;
      if (window === "hour") {
        this.#changed.add(slot);
        this.#current = number;
      }
    }
    this.#makeRoom();
  }

  /** Takes over what another control plane keeps of a slot, or what one kept before it ended. */
  put(source: string, { name, number }: HourSlot, keys: KeptKeys): void {
    const slot = this.#slotOf("hour", name, number, source);
    this.#held -= slot.keys.size;
    slot.keys = MergedKeys.of(keys);
    this.#held += slot.keys.size;
    this.#makeRoom();
  }

  /** @param sinceMs slots that ended before are not for who asks */
  top(policy: string, result: KeyResult, window: Window, nowMs: number, limit: number, sinceMs = 0): TopKeys {
    const { slotMs } = windows[window];
    const oldest = Math.max(oldestSlot(window, nowMs), this.#lost[window] + 1, Math.floor(sinceMs / slotMs));
    const slots = [...(this.#slots[window].get(nameOf(policy, result))?.values() ?? [])];
    const { keys, others } = mostOf(
      slots.filter(({ number }) => number >= oldest).map((slot) => slot.keys),
      limit,
    );
    const countedSinceMs = Math.min(nowMs, Math.max(oldest * slotMs, this.#knownSinceMs[window]));
    const isComplete = countedSinceMs >= this.#lostUntil(window, policy) && !(window === "hour" && this.#isSilent);
    return { keys, others, sinceMs: countedSinceMs, isComplete };
  }

  /** Whether there is a control plane of which nobody knows what it has heard of its gateways. */
  noteSilent(isSilent: boolean): void {
    this.#isSilent = isSilent;
  }

  /** Nothing is known of what was counted before. */
  noteUnknown(window: Window, beforeMs: number): void {
    this.#knownSinceMs[window] = beforeMs;
  }

  /** Something that was counted before has not come here. */
  noteLost(window: Window, untilMs: number): void {
    this.#lostUntilMs[window] = Math.max(this.#lostUntilMs[window], untilMs);
  }

  /** Of a slot of the hour, not all of the app's policies were kept. */
  noteCut(app: string, number: number): void {
    const untilMs = endOfHourSlot(number);
    this.#lostOfAppUntilMs.set(app, Math.max(this.#lostOfAppUntilMs.get(app) ?? 0, untilMs));
  }

  /** Returns own slots of the hour that have changed since they were last taken, those that have waited longest first. */
  takeChanged(most: number): HourSlot[] {
    const taken = [...this.#changed.values().take(most)];
    for (const slot of taken) this.#changed.delete(slot);
    return taken;
  }

  /** Slots that were taken are to be taken again. */
  noteChanged(slots: readonly HourSlot[]): void {
    for (const one of slots) {
      const slot = this.#ownSlot(one);
      if (slot === undefined) this.#noteDropped(one);
      else this.#changed.add(slot);
    }
  }

  /** Returns what is kept of an own slot; undefined: it has given way. */
  keptOf(slot: HourSlot): KeptKeys | undefined {
    const found = this.#ownSlot(slot);
    if (found === undefined) this.#noteDropped(slot);
    return found?.keys.largest(mostKeysKept, mostBytesKept);
  }

  /** Forgets what is older than the windows. */
  forget(nowMs: number): void {
    for (const slots of this.#kept.values())
      for (const slot of slots) if (slot.number < oldestSlot(slot.window, nowMs)) this.#drop(slot);
    const oldestMs = oldestSlot("hour", nowMs) * windows.hour.slotMs;
    for (const [app, untilMs] of this.#lostOfAppUntilMs) if (untilMs <= oldestMs) this.#lostOfAppUntilMs.delete(app);
  }

  #ownSlot({ name, number }: HourSlot): Slot | undefined {
    return this.#slots.hour.get(name)?.get(placeOf(number, own));
  }

  #noteDropped({ number }: HourSlot): void {
    this.#droppedUntilMs = Math.max(this.#droppedUntilMs, endOfHourSlot(number));
  }

  #lostUntil(window: Window, policy: string): number {
    const ofApp = window === "hour" ? this.#lostOfAppUntilMs.get(appOf(policy)) : undefined;
    return Math.max(this.#lostUntilMs[window], ofApp ?? 0);
  }

  #slotOf(window: Window, name: string, number: number, source: string): Slot {
    const slots: Slots = this.#slots[window].get(name) ?? new Map();
    const place = placeOf(number, source);
    const known = slots.get(place);
    if (known !== undefined) return known;
    const capacity = this.#held < this.#mostKeys / 2 ? windows[window].keysOfSlot : fewKeys;
    const slot: Slot = { window, name, number, source, keys: new MergedKeys(capacity) };
    this.#slots[window].set(name, slots.set(place, slot));
    const begunMs = beginOf(slot);
    const beside = this.#kept.get(begunMs) ?? new Set();
    this.#kept.set(begunMs, beside.add(slot));
    this.#held += keysForSlot;
    return slot;
  }

  #makeRoom(): void {
    while (this.#held > this.#mostKeys) {
      for (const oldest of this.#kept.get(Math.min(...this.#kept.keys())) ?? []) {
        if (this.#held <= this.#mostKeys) return;
        this.#lost[oldest.window] = Math.max(this.#lost[oldest.window], oldest.number);
        // The rest of its time gets a slot of its own, which takes the row that the database has of this one.
        const isCurrent = oldest.window === "hour" && oldest.source === own && oldest.number >= this.#current;
        if (isCurrent || this.#changed.has(oldest)) this.#noteDropped(oldest);
        this.#drop(oldest);
      }
    }
  }

  #drop(slot: Slot): void {
    const { window, name, number, source } = slot;
    const slots = this.#slots[window].get(name);
    this.#held -= keysForSlot + slot.keys.size;
    slots?.delete(placeOf(number, source));
    if (slots?.size === 0) this.#slots[window].delete(name);
    const beside = this.#kept.get(beginOf(slot));
    beside?.delete(slot);
    if (beside?.size === 0) this.#kept.delete(beginOf(slot));
    this.#changed.delete(slot);
  }
}

function beginOf({ window, number }: Slot): number {
  return number * windows[window].slotMs;
}

/** Returns when a slot of the hour ends. */
export function endOfHourSlot(number: number): number {
  return (number + 1) * windows.hour.slotMs;
}

/** Returns the slot of the hour that ends at a time, or nearest to it: clocks of control planes differ a little. */
export function hourSlotEndingAt(atMs: number): number {
  return Math.round(atMs / windows.hour.slotMs) - 1;
}

/** @param name "app/…" */
export function appOf(name: string): string {
  return name.slice(0, name.indexOf("/"));
}

/** Returns "app/policy". */
export function policyOf({ name }: HourSlot): string {
  return name.slice(0, name.indexOf(" "));
}

export function isRefused(name: string): boolean {
  return name.endsWith(" refused");
}

function nameOf(policy: string, result: KeyResult): string {
  return `${policy} ${result}`;
}

function placeOf(number: number, source: string): string {
  return `${number} ${source}`;
}

function oldestSlot(window: Window, nowMs: number): number {
  const { slotMs, slots } = windows[window];
  return Math.floor(nowMs / slotMs) - slots + 1;
}
