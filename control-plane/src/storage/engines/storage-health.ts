// Records whether the database takes changes, as learned from the changes that are made. While it takes none, its owner
// tries to write again and again, and so notices when there is room again.

import type { DatabaseFault } from "./database-errors.ts";

export type StorageState = "ok" | DatabaseFault;

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

  failed(fault: DatabaseFault, error: unknown): void {
    if (this.#state === fault) return;
    this.#state = fault;
    this.#error = error;
    this.#onChange(fault, error);
  }

  /** The server of the database answers again. Whether it stores changes is another question. */
  answered(): void {
    if (this.#state === "unreachable") this.worked();
  }

  worked(): void {
    if (this.#state === "ok") return;
    this.#state = "ok";
    this.#error = undefined;
    this.#onChange("ok", undefined);
  }
}
