// Remembers which tokens were right before, and whose they are, so that somebody who tries wrong ones, or asks for much, locks out nobody who
// shares their address.

/** A hash with its entry takes some 400 bytes. */
const defaultMost = 10_000;

export class KnownTokens {
  readonly #most: number;
  /** Owners by hashes, the one that was used last at the end. Only right tokens are added, so wrong ones push none out. */
  readonly #owners = new Map<string, readonly string[]>();

  constructor(most = defaultMost) {
    this.#most = most;
  }

  /** Returns whose token it is, as it was added. */
  ownersOf(hash: string): readonly string[] | undefined {
    return this.#owners.get(hash);
  }

  add(hash: string, owners: readonly string[]): void {
    this.#owners.delete(hash);
    this.#owners.set(hash, owners);
    if (this.#owners.size <= this.#most) return;
    const [oldest] = this.#owners.keys();
    if (oldest !== undefined) this.#owners.delete(oldest);
  }

  delete(hash: string): void {
    this.#owners.delete(hash);
  }
}
