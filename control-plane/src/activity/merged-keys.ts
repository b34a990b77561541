// The keys of a policy that came most often in some time, put together from the reports of many workers. Each report says of a
// key how often it came at least, and by how much that may be too low; and how often a key came at most that it does not list. The sums
// of both bound the truth from both sides.

export interface KeyReport {
  readonly keys: readonly string[];
  readonly counts: readonly number[];
  /** What a count may be too low by. Negative in a further part of a list, whose first part has what may be unlisted. */
  readonly error: number;
  /** The most that a key may have come that is not listed. */
  readonly unlisted: number;
}

/** The keys of a `MergedKeys`, to be kept elsewhere. */
export interface KeptKeys {
  readonly keys: readonly string[];
  readonly counts: readonly number[];
  /** What each count may be too low by. */
  readonly errors: readonly number[];
  /** The most that a key may have come that is not listed. */
  readonly unlisted: number;
}

/** How often a key came, from both sides. */
export interface Bounds {
  atLeast: number;
  atMost: number;
}

interface Counted {
  count: number;
  /** By how much less than `#unlisted` its count may be too low. */
  known: number;
}

export class MergedKeys {
  readonly #counted = new Map<string, Counted>();
  readonly #capacity: number;
  /** The most that a key may have come beyond its count, if no report listed it. */
  #unlisted = 0;

  /** @param capacity the most keys that are held, from 2 on */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#counted.size;
  }

  get unlisted(): number {
    return this.#unlisted;
  }

  /** Returns the same keys as were kept. */
  static of({ keys, counts, errors, unlisted }: KeptKeys): MergedKeys {
    const merged = new MergedKeys(keys.length);
    for (const [i, key] of keys.entries()) merged.#addKey(key, counts[i] ?? 0, unlisted - (errors[i] ?? 0));
    merged.#unlisted = unlisted;
    return merged;
  }

  add({ keys, counts, error, unlisted }: KeyReport): void {
    for (const [i, key] of keys.entries()) this.#addKey(key, counts[i] ?? 0, unlisted - error);
    this.#unlisted += unlisted;
    if (this.#counted.size > this.#capacity) this.#drop();
  }

  /** Returns the keys with the most that take so many bytes together as JSON. Those that are left out are within `unlisted`. */
  largest(mostKeys: number, mostBytes: number): KeptKeys {
    const sorted = [...this].sort(([, a], [, b]) => b.atLeast - a.atLeast);
    const kept: [string, Bounds][] = [];
    let bytes = 0;
    for (const [key, bounds] of sorted) {
      bytes += Buffer.byteLength(JSON.stringify([key, bounds.atLeast, bounds.atMost - bounds.atLeast]));
      if (kept.length === mostKeys || bytes > mostBytes) break;
      kept.push([key, bounds]);
    }
    return {
      keys: kept.map(([key]) => key),
      counts: kept.map(([, { atLeast }]) => atLeast),
      errors: kept.map(([, { atLeast, atMost }]) => atMost - atLeast),
      unlisted: sorted.slice(kept.length).reduce((most, [, { atMost }]) => Math.max(most, atMost), this.#unlisted),
    };
  }

  *[Symbol.iterator](): IterableIterator<[string, Bounds]> {
    for (const [key, { count, known }] of this.#counted) {
      yield [key, { atLeast: count, atMost: count + this.#unlisted - known }];
    }
  }

  #addKey(key: string, count: number, known: number): void {
    const counted = this.#counted.get(key);
    if (counted === undefined) this.#counted.set(key, { count, known });
    else {
      counted.count += count;
      counted.known += known;
    }
  }

  /** Takes the count of the first key beyond half the capacity from all, which leaves the larger ones. */
  #drop(): void {
    const counts = [...this.#counted.values()].map(({ count }) => count).sort((a, b) => b - a);
    const taken = counts[Math.floor(this.#capacity / 2)] ?? 0;
    for (const [key, counted] of this.#counted) {
      counted.count -= taken;
      if (counted.count <= 0) this.#counted.delete(key);
    }
    this.#unlisted += taken;
  }
}

/** Adds up the bounds of several parts of a time. @returns the keys with the most, and the most of any other key */
export function mostOf(parts: readonly MergedKeys[], limit: number): { keys: [string, Bounds][]; others: number } {
  const sums = new Map<string, Bounds>();
  const unlisted = parts.reduce((sum, part) => sum + part.unlisted, 0);
  for (const part of parts) {
    for (const [key, { atLeast, atMost }] of part) {
      const sum = sums.get(key) ?? { atLeast: 0, atMost: unlisted };
      sums.set(key, { atLeast: sum.atLeast + atLeast, atMost: sum.atMost + atMost - part.unlisted });
    }
  }
  const sorted = [...sums].sort(([, a], [, b]) => b.atLeast - a.atLeast || b.atMost - a.atMost);
  const others = sorted.slice(limit).reduce((most, [, { atMost }]) => Math.max(most, atMost), unlisted);
  return { keys: sorted.slice(0, limit), others };
}
