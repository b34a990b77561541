// Places for work that keeps much in memory until it ends. When all are taken, a newcomer waits, or gets the place of whoever has the most: that
// work ends at once. So the memory is bounded, and nobody is kept waiting by somebody who has more places.

import { type Taken, whoGivesWay } from "./who-gives-way.ts";

type Holder = Pick<Taken, "app" | "name">;

export class Places {
  readonly #most: number;
  readonly #mostWaiting: number;
  readonly #refusal: () => Error;
  readonly #taken = new Set<Place>();
  readonly #waiting = new Set<Place>();

  /** @param refusal is the error of who has lost a place, or gets none */
  constructor(most: number, mostWaiting: number, refusal: () => Error) {
    this.#most = most;
    this.#mostWaiting = mostWaiting;
    this.#refusal = refusal;
  }

  /** Resolves when the newcomer has a place. Rejects with the refusal if too many wait, and others have no more than it. */
  async take(newcomer: Holder): Promise<Place> {
    const place = new Place(newcomer);
    if (this.#hasRoom(this.#taken, this.#most, place)) {
      this.#taken.add(place);
      return place;
    }
    if (!this.#hasRoom(this.#waiting, this.#mostWaiting, place)) throw this.#refusal();
    this.#waiting.add(place);
    await place.begun;
    return place;
  }

  /** To be called when the work has ended, or has lost its place. */
  leave(place: Place): void {
    if (!this.#taken.delete(place)) return;
    const next = this.#next();
    if (next === undefined) return;
    this.#waiting.delete(next);
    this.#taken.add(next);
    next.begin();
  }

  /** @returns whether there is room, which somebody else may have lost just now */
  #hasRoom(places: Set<Place>, most: number, newcomer: Place): boolean {
    if (places.size < most) return true;
    const last = whoGivesWay(places, newcomer);
    if (last === undefined) return false;
    places.delete(last);
    last.lose(this.#refusal());
    return true;
  }

  /** @returns the first that waits of those who have the fewest places */
  #next(): Place | undefined {
    const taken = Map.groupBy(this.#taken, ({ app }) => app);
    let next: Place | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const place of this.#waiting) {
      const ofApp = taken.get(place.app)?.length ?? 0;
      if (ofApp >= fewest) continue;
      next = place;
      fewest = ofApp;
    }
    return next;
  }
}

export class Place implements Taken {
  readonly app: string;
  readonly name: string;
  readonly size = 1;
  readonly #begun = Promise.withResolvers<void>();
  readonly #lost = Promise.withResolvers<never>();

  constructor({ app, name }: Holder) {
    this.app = app;
    this.name = name;
    // Nobody may be waiting for either.
    this.#begun.promise.catch(() => undefined);
    this.#lost.promise.catch(() => undefined);
  }

  /** Resolves when a place is free, for one that waits. Rejects when it is lost before. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  /** Resolves as the step does. Rejects at once when the place is lost. */
  untilLost(step: Promise<void>): Promise<void> {
    return Promise.race([step, this.#lost.promise]);
  }

  begin(): void {
    this.#begun.resolve();
  }

  lose(refusal: Error): void {
    this.#begun.reject(refusal);
    this.#lost.reject(refusal);
  }
}
