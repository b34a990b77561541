// Sends the newest state of the database to every connected gateway. It is called after each change; calls during a round
// share the next round, so a burst of changes costs a few reads, not one each.

import type { Position } from "../storage/epoch.ts";
import type { StoredState } from "../storage/revisions.ts";
import type { Fleet } from "./fleet.ts";
import { isProven, type ShownPosition } from "./position-proof.ts";
import { type SnapshotFrame, snapshotFrame } from "./snapshot-frame.ts";

const retryMs = 1_000;

export interface PublisherDependencies {
  readonly fleet: Fleet;
  /** Returns milliseconds since the epoch. */
  now(): number;
  readState(): Promise<StoredState>;
  /** Reads only the newest revision number, which costs little. */
  readHead(): Promise<Position>;
  /** Begins a new epoch if the history does not reach `held`. */
  renewEpoch(held: Position): Promise<void>;
  onError(error: unknown): void;
  /** Called when the state is wanted, as after a change. @returns a function that is called when its snapshot is sent */
  onWanted?(): (frame: SnapshotFrame) => void;
}

export class Publisher {
  readonly #dependencies: PublisherDependencies;
  #current: SnapshotFrame;
  #proofKey: string;
  /** A position of our history that a gateway has proven and that we have not read. */
  #shown: Position | undefined;
  #wanted = false;
  #onSent: ((frame: SnapshotFrame) => void) | undefined;
  #round: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;
  #behindSinceMs: number | undefined;

  private constructor(dependencies: PublisherDependencies, proofKey: string, first: SnapshotFrame) {
    this.#dependencies = dependencies;
    this.#proofKey = proofKey;
    this.#current = first;
  }

  /** @throws when the database cannot be read: without a first state there is nothing to serve */
  static async start(dependencies: PublisherDependencies): Promise<Publisher> {
    const state = await dependencies.readState();
    return new Publisher(dependencies, state.proofKey, await snapshotFrame(state, dependencies.now()));
  }

  /** The newest snapshot that was read. */
  get current(): SnapshotFrame {
    return this.#current;
  }

  /**
   * Records the position that a gateway reports when it connects. If it is later than the state that we have read, either
   * another control plane has just written it, or the database was rolled back to an older state. A rollback is assumed only
   * if the gateway shows the proof of its revision; otherwise the database is read again, and what it contains counts.
   */
  noteShown(held: ShownPosition): void {
    if (!isBeyond(held, this.#current)) return;
    const { epoch, revision } = held;
    const further = this.#shown === undefined || !isBeyond(this.#shown, held);
    if (further && isProven(this.#proofKey, held)) this.#shown = { epoch, revision };
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
    if (epoch !== this.#current.epoch || revision !== this.#current.revision) await this.publish();
  }

  /** Waits for the current round, so that the database can be closed afterwards. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    await this.#round;
  }

  async #work(): Promise<void> {
    while (this.#wanted && !this.#stopped) {
      this.#wanted = false;
      const onSent = this.#onSent;
      this.#onSent = undefined;
      this.#behindSinceMs ??= performance.now();
      try {
        const state = await this.#readWholeHistory();
        if (state === undefined) {
          if (!this.#wanted) this.#behindSinceMs = undefined;
          continue;
        }
        this.#proofKey = state.proofKey;
        this.#current = await snapshotFrame(state, this.#dependencies.now());
        onSent?.(this.#current);
        this.#dependencies.fleet.sendToAll(this.#current);
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
   * Reads the state. A history that has lost its end is replaced by a new epoch first: gateways would refuse its numbers,
   * which they know already.
   * @returns undefined if there is nothing new
   */
  async #readWholeHistory(): Promise<StoredState | undefined> {
    const head = await this.#dependencies.readHead();
    const shown = this.#shown;
    const held = shown !== undefined && isBeyond(shown, head) ? shown : this.#current;
    const hasLostItsEnd = isBeyond(held, head);
    if (hasLostItsEnd) await this.#dependencies.renewEpoch(held);
    if (this.#shown === shown) this.#shown = undefined;
    const { epoch, revision } = this.#current;
    if (!hasLostItsEnd && head.epoch === epoch && head.revision === revision) return undefined;
    return this.#dependencies.readState();
  }
}

/** Returns whether `held` is of the same history, and newer. */
function isBeyond(held: Position, known: Position): boolean {
  return held.epoch === known.epoch && held.revision > known.revision;
}
