// Brings the newest state from the database to every connected gateway. Called after each change; calls that come
// while one is at work share the next round, so a burst of changes costs a few reads and not one each.

import type { Position } from "../storage/epoch.ts";
import type { StoredState } from "../storage/revisions.ts";
import type { Fleet } from "./fleet.ts";
import { type SnapshotFrame, snapshotFrame } from "./snapshot-frame.ts";

const retryMs = 1_000;

export interface PublisherDependencies {
  readonly fleet: Fleet;
  /** ms since the epoch. */
  now(): number;
  readState(): Promise<StoredState>;
  /** Makes the history another one where it does not reach as far as `held`. */
  renewEpoch(held: Position): Promise<void>;
  onError(error: unknown): void;
}

export class Publisher {
  readonly #dependencies: PublisherDependencies;
  #current: SnapshotFrame;
  #claimed: Position | undefined;
  #wanted = false;
  #round: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;

  private constructor(dependencies: PublisherDependencies, first: SnapshotFrame) {
    this.#dependencies = dependencies;
    this.#current = first;
  }

  /** @throws when the database cannot be read: without a first state there is nothing to serve */
  static async start(dependencies: PublisherDependencies): Promise<Publisher> {
    return new Publisher(dependencies, snapshotFrame(await dependencies.readState(), dependencies.now()));
  }

  /** The newest snapshot that was read. */
  get current(): SnapshotFrame {
    return this.#current;
  }

  /**
   * Takes note of what a gateway says that it holds. More of our history than we have read: another control plane wrote
   * it just now, or the database was rolled back to an older state.
   */
  heardOf(held: Position): void {
    if (!isBeyond(held, this.#current)) return;
    if (this.#claimed === undefined || !isBeyond(this.#claimed, held)) this.#claimed = held;
    void this.publish();
  }

  /** Reads what the database holds now and sends it to every gateway. Never rejects: a failed read is tried again. */
  publish(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#wanted = true;
    this.#round ??= this.#work().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  /** Waits for the round at work, so that the database can be closed after. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    await this.#round;
  }

  async #work(): Promise<void> {
    while (this.#wanted && !this.#stopped) {
      this.#wanted = false;
      try {
        const state = await this.#readWholeHistory();
        const { epoch, revision } = this.#current;
        if (state.epoch === epoch && state.revision === revision) continue;
        this.#current = snapshotFrame(state, this.#dependencies.now());
        for (const link of this.#dependencies.fleet.links()) link.sendSnapshot(this.#current);
        this.#dependencies.fleet.emit("progress");
      } catch (error) {
        this.#dependencies.onError(error);
        clearTimeout(this.#retry);
        this.#retry = setTimeout(() => void this.publish(), retryMs);
      }
    }
  }

  /** A history without its end is made another one first: gateways refuse its numbers, which they know already. */
  async #readWholeHistory(): Promise<StoredState> {
    const state = await this.#dependencies.readState();
    const claimed = this.#claimed;
    const held = claimed !== undefined && isBeyond(claimed, state) ? claimed : this.#current;
    if (isBeyond(held, state)) await this.#dependencies.renewEpoch(held);
    if (this.#claimed === claimed) this.#claimed = undefined;
    return isBeyond(held, state) ? this.#dependencies.readState() : state;
  }
}

/** Whether `held` is of the same history, and newer. */
function isBeyond(held: Position, known: Position): boolean {
  return held.epoch === known.epoch && held.revision > known.revision;
}
