// Remembers which tokens were right before, so that somebody who tries wrong ones locks out nobody who shares their address.

/** A hash with its entry takes some 150 bytes. */
const defaultMost = 10_000;

export class KnownTokens {
  readonly #most: number;
  /** Hashes, the one that was used last at the end. Only right tokens are added, so wrong ones push none out. */
  readonly #hashes = new Set<string>();

  constructor(most = defaultMost) {
    this.#most = most;
  }

  has(hash: string): boolean {
    return this.#hashes.has(hash);
  }

  add(hash: string): void {
    this.#hashes.delete(hash);
    this.#hashes.add(hash);
    if (this.#hashes.size <= this.#most) return;
    const [oldest] = this.#hashes;
    if (oldest !== undefined) this.#hashes.delete(oldest);
  }

  delete(hash: string): void {
    this.#hashes.delete(hash);
  }
}
