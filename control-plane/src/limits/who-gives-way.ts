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

/** Places, of which each is as large as any other. Whoever gives way is found without a look at all of them. */
export class TakenPlaces {
  readonly #apps = new Counts();
  readonly #names = new Map<string, Counts>();

  add({ app, name }: Holder): void {
    const names = this.#names.get(app) ?? new Counts();
    this.#names.set(app, names);
    names.change(name, 1);
    this.#apps.change(app, 1);
  }

  remove({ app, name }: Holder): void {
    const names = this.#names.get(app);
    names?.change(name, -1);
    if (names?.most === 0) this.#names.delete(app);
    this.#apps.change(app, -1);
  }

  /** @returns the name that loses a place to the newcomer, by the rule of the function above */
  whoGivesWay({ app, name }: Holder): string | undefined {
    const isOwn = this.#apps.most <= this.#apps.of(app) + 1;
    const names = this.#names.get(isOwn ? app : (this.#apps.largest ?? ""));
    if (names === undefined || (isOwn && names.most <= names.of(name) + 1)) return undefined;
    return names.largest;
  }
}

type Holder = Pick<Taken, "app" | "name">;

/** Counts by name, of which the largest is known at all times. */
class Counts {
  readonly #counts = new Map<string, number>();
  readonly #namesWith = new Map<number, Set<string>>();
  #most = 0;

  get most(): number {
    return this.#most;
  }

  /** One of those with the most. */
  get largest(): string | undefined {
    const [largest] = this.#namesWith.get(this.#most) ?? [];
    return largest;
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  change(name: string, by: 1 | -1): void {
    const before = this.of(name);
    const after = before + by;
    const asBefore = this.#namesWith.get(before);
    asBefore?.delete(name);
    if (asBefore?.size === 0) this.#namesWith.delete(before);
    if (after === 0) this.#counts.delete(name);
    else {
      this.#counts.set(name, after);
      this.#namesWith.set(after, (this.#namesWith.get(after) ?? new Set()).add(name));
    }
    // Without another one that had the most, this one has the most still.
    if (after > this.#most || (before === this.#most && !this.#namesWith.has(before))) this.#most = after;
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
