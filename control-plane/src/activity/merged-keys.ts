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

  add({ keys, counts, error, unlisted }: KeyReport): void {
    for (const [i, key] of keys.entries()) {
      const count = counts[i] ?? 0;
      const known = unlisted - error;
      const counted = this.#counted.get(key);
      if (counted === undefined) this.#counted.set(key, { count, known });
      else {
        counted.count += count;
        counted.known += known;
      }
    }
    this.#unlisted += unlisted;
    if (this.#counted.size > this.#capacity) this.#drop();
  }

  *[Symbol.iterator](): IterableIterator<[string, Bounds]> {
    for (const [key, { count, known }] of this.#counted) {
      yield [key, { atLeast: count, atMost: count + this.#unlisted - known }];
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
