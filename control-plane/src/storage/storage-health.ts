// Records whether the database takes changes, as learned from the changes that are made. While it takes none, its owner
// tries to write again and again, and so notices when there is room again.

import type { WriteFault } from "./sqlite-errors.ts";

export type StorageState = "ok" | WriteFault;

export class StorageHealth {
  #state: StorageState = "ok";
  #onChange: (state: StorageState, error: unknown) => void = () => {};

  get state(): StorageState {
    return this.#state;
  }

  /** @param listener is called at each later change of state, and at once if the state is not ok now */
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
