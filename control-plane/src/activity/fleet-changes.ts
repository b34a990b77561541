// The gateways in the order in which they have changed. A stream of events that goes on later remembers a number, and no list of its own.

export interface GatewayState {
  readonly connected: boolean;
  /** The revision that it has applied; 0: none of this history. */
  readonly revision: number;
  /** The revision that it has refused. */
  readonly refused: number | undefined;
}

export interface GatewayChange extends GatewayState {
  readonly id: string;
  /** Grows with each change. */
  readonly number: number;
}

interface Kept extends GatewayChange {
  /** The update since which the gateway is in no list; undefined: it is. */
  readonly goneSince: number | undefined;
}

/** Streams that are told a few times a second are told of a gateway that has gone before it is forgotten. */
const updatesWithGone = 200;

export class FleetChanges {
  readonly #kept = new Map<string, Kept>();
  #updates = 0;
  #newest = 0;

  /** The number of the last change. */
  get newest(): number {
    return this.#newest;
  }

  /** @param gateways all of them, by their ids */
  update(gateways: ReadonlyMap<string, GatewayState>): void {
    this.#updates += 1;
    for (const [id, state] of gateways) {
      const kept = this.#kept.get(id);
      if (kept === undefined || kept.goneSince !== undefined || !isSame(kept, state)) this.#keep(id, state, undefined);
    }
    for (const [id, { connected, goneSince }] of [...this.#kept]) {
      if (gateways.has(id)) continue;
      if (connected) this.#keep(id, { connected: false, revision: 0, refused: undefined }, this.#updates);
      else if (this.#updates - (goneSince ?? 0) > updatesWithGone) this.#kept.delete(id);
    }
  }

  /** @param begun gateways that had gone by then are left out */
  *since(number: number, begun: number): Generator<GatewayChange> {
    if (number === this.#newest) return;
    for (const { goneSince, ...change } of this.#kept.values()) {
      if (change.number > number && (goneSince === undefined || change.number > begun)) yield change;
    }
  }

  #keep(id: string, state: GatewayState, goneSince: number | undefined): void {
    this.#newest += 1;
    // The last one in the order of the map.
    this.#kept.delete(id);
    this.#kept.set(id, { id, ...state, number: this.#newest, goneSince });
  }
}

function isSame(before: GatewayState, { connected, revision, refused }: GatewayState): boolean {
  return before.connected === connected && before.revision === revision && before.refused === refused;
}
