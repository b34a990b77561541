// Decides who gives way when everything of something is taken: places in a line, streams, memory. Nobody can then keep others out by holding
// places for long: whoever has few gets one from whoever has the most. The share of an app does not grow with its tokens.

/** What somebody has taken. */
export interface Taken {
  /** Empty: not of one app. */
  readonly app: string;
  /** The token or the member. */
  readonly name: string;
  /** In any unit, the same for all. */
  readonly size: number;
}

/**
 * Chooses in the app that has the most, or in the newcomer's own app, and there of the name that has the most.
 *
 * @param newcomer with the size of what it asks for
 * @returns the largest, and the last of equals; undefined if nobody has more than the newcomer would have
 */
export function whoGivesWay<One extends Taken>(taken: Iterable<One>, newcomer: Taken): One | undefined {
  const apps = Map.groupBy(taken, ({ app }) => app);
  const own = apps.get(newcomer.app) ?? [];
  const largest = largestOf(apps.values(), sum) ?? [];
  const isOwn = sum(largest) <= sum(own) + newcomer.size;
  const names = Map.groupBy(isOwn ? own : largest, ({ name }) => name);
  const most = largestOf(names.values(), sum) ?? [];
  if (isOwn && sum(most) <= sum(names.get(newcomer.name) ?? []) + newcomer.size) return undefined;
  return largestOf(most.toReversed(), ({ size }) => size);
}

/** Items that have taken something. Whoever gives way is found without a look at all of them. */
export class TakenSizes<Item> {
  readonly #apps = new Map<string, OfApp<Item>>();
  readonly #sums = new Sums<OfApp<Item>>();

  /** @param by what the item has more than before; less, if it is below zero */
  change({ app, name }: Holder, item: Item, by: number): void {
    const ofApp = this.#apps.get(app) ?? { names: new Map(), sums: new Sums() };
    const ofName = ofApp.names.get(name) ?? new Sums();
    ofName.change(item, by);
    ofApp.sums.change(ofName, by);
    this.#sums.change(ofApp, by);
    keep(ofApp.names, name, ofName, ofName.most > 0);
    keep(this.#apps, app, ofApp, ofApp.sums.most > 0);
  }

  /**
   * @param more what the newcomer asks for, beyond what it is counted with
   * @param among all, or those of the newcomer's app alone
   * @returns the item that gives way, by the rule of the function above; of equals, any
   */
  whoGivesWay({ app, name }: Holder, more: number, among: "all" | "own"): Item | undefined {
    const own = this.#apps.get(app);
    const isOwn = among === "own" || this.#sums.most <= this.#sums.of(own) + more;
    const { names, sums } = (isOwn ? own : this.#sums.largest) ?? {};
    if (sums === undefined || (isOwn && sums.most <= sums.of(names?.get(name)) + more)) return undefined;
    return sums.largest?.largest;
  }
}

interface OfApp<Item> {
  readonly names: Map<string, Sums<Item>>;
  /** Of each name. */
  readonly sums: Sums<Sums<Item>>;
}

function keep<Value>(map: Map<string, Value>, key: string, value: Value, isKept: boolean): void {
  if (isKept) map.set(key, value);
  else map.delete(key);
}

/** Places, of which each is as large as any other. */
export class TakenPlaces {
  readonly #sizes = new TakenSizes<string>();

  add(holder: Holder): void {
    this.#sizes.change(holder, holder.name, 1);
  }

  remove(holder: Holder): void {
    this.#sizes.change(holder, holder.name, -1);
  }

  /** @returns the name that loses a place to the newcomer, by the rule of the function above */
  whoGivesWay(newcomer: Holder): string | undefined {
    return this.#sizes.whoGivesWay(newcomer, 1, "all");
  }
}

type Holder = Pick<Taken, "app" | "name">;

interface Sum<Key> {
  readonly key: Key;
  size: number;
  /** Its index in the heap. */
  at: number;
}

/** Sums above zero, of which the largest is known at all times. A change takes as many steps as their number has bits. */
class Sums<Key> {
  readonly #sums = new Map<Key | undefined, Sum<Key>>();
  /** No sum is larger than the one at half its index. The first is at 1. */
  readonly #heap: (Sum<Key> | undefined)[] = [undefined];

  get most(): number {
    return this.#heap[1]?.size ?? 0;
  }

  /** One of those with the most. */
  get largest(): Key | undefined {
    return this.#heap[1]?.key;
  }

  of(key: Key | undefined): number {
    return this.#sums.get(key)?.size ?? 0;
  }

  change(key: Key, by: number): void {
    if (by === 0) return;
    const sum = this.#sums.get(key) ?? { key, size: 0, at: this.#heap.length };
    sum.size += by;
    if (sum.size > 0) {
      this.#sums.set(key, sum);
      this.#settle(sum, sum.at);
      return;
    }
    this.#sums.delete(key);
    const last = this.#heap.pop();
    if (last !== undefined && last !== sum) this.#settle(last, sum.at);
  }

  /** Puts the sum where it belongs, from a free place on. */
  #settle(sum: Sum<Key>, free: number): void {
    let at = free;
    for (let above = at >> 1; above > 0 && this.#sizeAt(above) < sum.size; above = at >> 1) at = this.#move(above, at);
    for (let below = this.#largerBelow(at); this.#sizeAt(below) > sum.size; below = this.#largerBelow(at)) {
      at = this.#move(below, at);
    }
    sum.at = at;
    this.#heap[at] = sum;
  }

  /** @returns the place that is free then */
  #move(from: number, to: number): number {
    const sum = this.#heap[from];
    this.#heap[to] = sum;
    if (sum !== undefined) sum.at = to;
    return from;
  }

  #largerBelow(at: number): number {
    return this.#sizeAt(2 * at) >= this.#sizeAt(2 * at + 1) ? 2 * at : 2 * at + 1;
  }

  #sizeAt(at: number): number {
    return this.#heap[at]?.size ?? 0;
  }
}

function sum(taken: readonly Taken[]): number {
  return taken.reduce((all, { size }) => all + size, 0);
}

function largestOf<One>(all: Iterable<One>, sizeOf: (one: One) => number): One | undefined {
  let largest: One | undefined;
  for (const one of all) if (largest === undefined || sizeOf(one) > sizeOf(largest)) largest = one;
  return largest;
}
