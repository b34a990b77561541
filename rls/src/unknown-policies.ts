// Remembers for a short time which policies do not exist. A check of an unknown policy fails the request that it shares with checks of
// others, which then have to be asked again; Envoy would send such a check for each of its requests.

/** A policy that somebody has just made is found after this. */
const lastsMs = 1000;
const most = 1000;

export class UnknownPolicies {
  readonly #now: () => number;
  /** By name: until when nobody asks, the oldest first. */
  readonly #untilMs = new Map<string, number>();

  /** @param now ms of a clock that never steps back */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Once the time of a policy is over, one caller hears false and asks; the others go on without it meanwhile. */
  has(name: string): boolean {
    const untilMs = this.#untilMs.get(name);
    if (untilMs === undefined) return false;
    if (this.#now() < untilMs) return true;
    this.add(name);
    return false;
  }

  add(name: string): void {
    this.#untilMs.delete(name);
    this.#untilMs.set(name, this.#now() + lastsMs);
    if (this.#untilMs.size <= most) return;
    for (const oldest of this.#untilMs.keys()) {
      this.#untilMs.delete(oldest);
      return;
    }
  }

  /** Called for a policy that answered. */
  remove(name: string): void {
    if (this.#untilMs.size > 0) this.#untilMs.delete(name);
  }
}
