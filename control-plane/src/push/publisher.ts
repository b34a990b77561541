// Brings every connected gateway to the newest state of the database. It is called after each change, and reads what has changed;
// calls during a round share the next round, so a burst of changes costs a few reads, not one each.

import type { Position } from "../storage/epoch.ts";
import type { StateChanges, StoredState } from "../storage/state.ts";
import type { Fleet } from "./fleet.ts";
import { isProven, type ShownPosition } from "./position-proof.ts";
import { type EditedPosition, PushedState } from "./pushed-state.ts";

const retryMs = 1_000;

export interface PublisherDependencies {
  readonly fleet: Fleet;
  /** Returns milliseconds since the epoch. */
  now(): number;
  /** Says how this control plane makes states: another edition's state of the same revision may differ. */
  readonly edition: string;
  readState(): Promise<StoredState>;
  /** Reads what has changed since a position. Undefined: the whole state must be read. */
  readChanges(since: Position): Promise<StateChanges | undefined>;
  /** Reads only the newest revision number, which costs little. */
  readHead(): Promise<Position>;
  /** Begins a new epoch if the history does not reach `held`. */
  renewEpoch(held: Position): Promise<void>;
  onError(error: unknown): void;
  /** Called when the state is wanted, as after a change. @returns a function that is called when it is about to be sent */
  onWanted?(): (published: Published) => void;
}

/** A state that is about to be sent. */
export interface Published extends EditedPosition {
  /** Bytes of what most gateways get. */
  readonly bytes: number;
}

/** Bans and tokens that are over are removed this often. */
const sweepEveryMs = 60_000;

export class Publisher {
  readonly #dependencies: PublisherDependencies;
  #state: PushedState;
  /** A position of our history that a gateway has proven and that we have not read. */
  #shown: Position | undefined;
  #wanted = false;
  #onSent: ((published: Published) => void) | undefined;
  #round: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;
  #behindSinceMs: number | undefined;

  readonly #sweep: NodeJS.Timeout;

  private constructor(dependencies: PublisherDependencies, first: PushedState) {
    this.#dependencies = dependencies;
    this.#state = first;
    this.#sweep = setInterval(() => this.#state.removeWhatIsOver(dependencies.now()), sweepEveryMs).unref();
  }

  /** @throws when the database cannot be read: without a first state there is nothing to serve */
  static async start(dependencies: PublisherDependencies): Promise<Publisher> {
    const stored = await dependencies.readState();
    return new Publisher(dependencies, await PushedState.from(dependencies.edition, stored, dependencies.now()));
  }

  /** The newest state that was read. */
  get state(): PushedState {
    return this.#state;
  }

  /** The position of the newest state that was read. */
  get current(): Position {
    return this.#state.position;
  }

  /**
   * Records the position that a gateway reports when it connects. If it is later than the state that we have read, either
   * another control plane has just written it, or the database was rolled back to an older state. A rollback is assumed only
   * if the gateway shows the proof of its revision; otherwise the database is read again, and what it contains counts.
   */
  noteShown(held: ShownPosition): void {
    if (!isBeyond(held, this.current)) return;
    const { epoch, revision } = held;
    const further = this.#shown === undefined || !isBeyond(this.#shown, held);
    if (further && isProven(this.#state.proofKey, held)) this.#shown = { epoch, revision };
    void this.publish();
  }

  /** Reads the current state of the database and sends it to every gateway. Never rejects: a failed read is repeated. */
  publish(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#wanted = true;
    this.#onSent ??= this.#dependencies.onWanted?.();
    this.#round ??= this.#work().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  /** Since when a wanted state could not be read or sent, by `performance.now()`; undefined if there is none. */
  get behindSinceMs(): number | undefined {
    return this.#behindSinceMs;
  }

  /** Reads the state if another control plane has changed it. @throws when the database cannot be read */
  async publishIfBehind(): Promise<void> {
    const { epoch, revision } = await this.#dependencies.readHead();
    if (epoch !== this.current.epoch || revision !== this.current.revision) await this.publish();
  }

  /** Waits for the current round, so that the database can be closed afterwards. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    clearInterval(this.#sweep);
    await this.#round;
  }

  async #work(): Promise<void> {
    while (this.#wanted && !this.#stopped) {
      this.#wanted = false;
      const onSent = this.#onSent;
      this.#onSent = undefined;
      this.#behindSinceMs ??= performance.now();
      try {
        const before = this.#state.position;
        if (!(await this.#readNewest())) {
          if (!this.#wanted) this.#behindSinceMs = undefined;
          continue;
        }
        const { position, bytes } = this.#state;
        onSent?.({ ...position, bytes: this.#state.deltaFrom(before)?.bytes ?? bytes });
        await this.#dependencies.fleet.pushToAll(this.#state);
        this.#dependencies.fleet.emit("progress");
        if (!this.#wanted) this.#behindSinceMs = undefined;
      } catch (error) {
        this.#onSent ??= onSent;
        this.#dependencies.onError(error);
        clearTimeout(this.#retry);
        this.#retry = setTimeout(() => void this.publish(), retryMs);
      }
    }
  }

  /**
   * Reads what is new. A history that has lost its end is replaced by a new epoch first: gateways would refuse its numbers,
   * which they know already.
   * @returns whether anything is new
   */
  async #readNewest(): Promise<boolean> {
    const { readHead, renewEpoch, readChanges, readState, edition, now } = this.#dependencies;
    const head = await readHead();
    const shown = this.#shown;
    const held = shown !== undefined && isBeyond(shown, head) ? shown : this.current;
    const hasLostItsEnd = isBeyond(held, head);
    if (hasLostItsEnd) await renewEpoch(held);
    if (this.#shown === shown) this.#shown = undefined;
    const { epoch, revision } = this.current;
    if (!hasLostItsEnd && head.epoch === epoch && head.revision === revision) return false;
    const changes = hasLostItsEnd ? undefined : await readChanges(this.current);
    if (changes !== undefined) await this.#state.apply(changes, now());
    else this.#state = await PushedState.from(edition, await readState(), now());
    return true;
  }
}

/** Returns whether `held` is of the same history, and newer. */
function isBeyond(held: Position, known: Position): boolean {
  return held.epoch === known.epoch && held.revision > known.revision;
}
