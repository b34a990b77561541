// Decides which slots of this control plane the database keeps, and knows in which rows. If a slot of time has too many policies, those with most
// requests stay, refused ones first, and each app has the same share. What an app does not need of its share, others get.

import type { KeptKeys } from "./merged-keys.ts";
import { appOf, type HourSlot, isRefused } from "./top-keys.ts";

/** Together with those of the other slots that are kept, they take 110 MB at most. */
const defaultMostOfSlot = 2_000;
/** Heavier than any count of what is admitted. */
const refusedWeight = 2 ** 50;

interface KeptRow {
  readonly row: number;
  readonly weight: number;
  /** Older rows of the slot, which are deleted once this one is stored. */
  readonly former: readonly number[];
}

/** It is heavier than all. */
const noRow: KeptRow = { row: 0, weight: Number.POSITIVE_INFINITY, former: [] };

interface RowsOfSlot {
  /** By app and name. */
  readonly apps: Map<string, Map<string, KeptRow>>;
  /** The apps of which something was left out. */
  readonly cut: Set<string>;
  count: number;
}

/** Not all policies of an app are kept of a slot. */
export interface Cut {
  readonly app: string;
  readonly number: number;
}

export class KeptSlots {
  /** By number of the slot. */
  readonly #slots = new Map<number, RowsOfSlot>();
  readonly #mostOfSlot: number;
  /** Rows that the database has, and that are to be deleted. */
  #gone: number[] = [];
  /** What the database is to be told. */
  #cuts: Cut[] = [];
  #newest = 0;

  constructor(mostOfSlot = defaultMostOfSlot) {
    this.#mostOfSlot = mostOfSlot;
  }

  /** The number of the last row. */
  get newest(): number {
    return this.#newest;
  }

  get gone(): readonly number[] {
    return this.#gone;
  }

  noteDeleted(): void {
    this.#gone = [];
  }

  get cuts(): readonly Cut[] {
    return this.#cuts;
  }

  /** The rows of these slots, and of the cuts, are in the database. */
  noteStored(slots: readonly HourSlot[]): void {
    this.#cuts = [];
    for (const { name, number } of slots) {
      const rows = this.#slots.get(number)?.apps.get(appOf(name));
      const kept = rows?.get(name);
      if (rows === undefined || kept === undefined) continue;
      this.#gone.push(...kept.former);
      rows.set(name, { ...kept, former: [] });
    }
  }

  /** Returns the number of a new row. Each one is larger than those before. */
  nextRow(): number {
    this.#newest += 1;
    return this.#newest;
  }

  /** Returns the number of the row that is to keep the slot, in place of its former ones; undefined: there is no room. */
  place({ name, number }: HourSlot, keys: KeptKeys): number | undefined {
    const slot = this.#slots.get(number) ?? { apps: new Map(), cut: new Set(), count: 0 };
    this.#slots.set(number, slot);
    const app = appOf(name);
    const weight = keys.counts.reduce((sum, count) => sum + count, isRefused(name) ? refusedWeight : 0);
    const before = slot.apps.get(app)?.get(name);
    if (before === undefined) {
      if (!this.#makeRoom(slot, number, app, weight)) return undefined;
      slot.count += 1;
    }
    const row = this.nextRow();
    const former = before === undefined ? [] : [...before.former, before.row];
    const rows = slot.apps.get(app) ?? new Map<string, KeptRow>();
    slot.apps.set(app, rows.set(name, { row, weight, former }));
    return row;
  }

  /** Forgets slots before this one: their rows are deleted by their age. */
  forget(beforeNumber: number): void {
    for (const number of this.#slots.keys()) if (number < beforeNumber) this.#slots.delete(number);
  }

  /** @returns whether there is room for one more row of the app */
  #makeRoom(slot: RowsOfSlot, number: number, app: string, weight: number): boolean {
    if (slot.count < this.#mostOfSlot) return true;
    const own = slot.apps.get(app)?.size ?? 0;
    const [largest, rows] = largestOf(slot.apps);
    if (rows.size > own + 1) {
      const [lightest] = lightestOf(rows);
      this.#remove(slot, number, largest, lightest);
      return true;
    }
    const [lightest, { weight: least }] = lightestOf(slot.apps.get(app) ?? new Map());
    if (least < weight) this.#remove(slot, number, app, lightest);
    else this.#cut(slot, number, app);
    return least < weight;
  }

  #remove(slot: RowsOfSlot, number: number, app: string, name: string): void {
    const rows = slot.apps.get(app);
    const { row, former } = rows?.get(name) ?? noRow;
    this.#gone.push(row, ...former);
    rows?.delete(name);
    slot.count -= 1;
    this.#cut(slot, number, app);
  }

  #cut(slot: RowsOfSlot, number: number, app: string): void {
    if (slot.cut.has(app)) return;
    slot.cut.add(app);
    this.#cuts.push({ app, number });
  }
}

function largestOf(apps: RowsOfSlot["apps"]): [string, Map<string, KeptRow>] {
  let largest: [string, Map<string, KeptRow>] = ["", new Map()];
  for (const one of apps) if (one[1].size > largest[1].size) largest = one;
  return largest;
}

/** Returns the name with the smallest weight; of none, one that is heavier than all. */
function lightestOf(rows: ReadonlyMap<string, KeptRow>): [string, KeptRow] {
  let lightest: [string, KeptRow] = ["", noRow];
  for (const one of rows) if (one[1].weight < lightest[1].weight) lightest = one;
  return lightest;
}
