// Whether the database takes changes. Learned from the changes that are made; while it takes none, whoever owns it tries
// again and again, so that it is known when there is room again.

import type { WriteFault } from "./sqlite-errors.ts";

export type StorageState = "ok" | WriteFault;

export class StorageHealth {
  #state: StorageState = "ok";
  #onChange: (state: StorageState, error: unknown) => void = () => {};

  get state(): StorageState {
    return this.#state;
  }

  /** @param listener told of each change of state from now on, and of one that there was already */
  onChange(listener: (state: StorageState, error: unknown) => void): void {
    this.#onChange = listener;
    if (this.#state !== "ok") listener(this.#state, this.#error);
  }

  #error: unknown;

  failed(fault: WriteFault, error: unknown): void {
    if (this.#state === fault) return;
    this.#state = fault;
    this.#error = error;
    this.#onChange(fault, error);
  }

  worked(): void {
    if (this.#state === "ok") return;
    this.#state = "ok";
    this.#error = undefined;
    this.#onChange("ok", undefined);
  }
}
