// A queue for something that only one caller at a time may use. Of those who wait, whoever had a turn longest ago comes first, so that somebody with
// many long changes delays others by one of them. A caller that has waited for too long leaves the queue.

import { AsyncLocalStorage } from "node:async_hooks";

/** On whose behalf the database is asked. Undefined: nobody's, as in what the control plane does by itself. */
export const onBehalfOf = new AsyncLocalStorage<string>();

interface Waiting {
  readonly owner: string;
  readonly onTurn: () => void;
}

export class Turns {
  #waiting: Waiting[] = [];
  /** By owner, while anybody waits: the number of the turn that it has had last. */
  readonly #lastTurns = new Map<string, number>();
  #turn = 0;
  #taken = false;

  /**
   * @param giveUpAtMs by `performance.now()`
   * @returns a function that passes the turn on to the next caller, or undefined if the turn did not come in time
   */
  async take(giveUpAtMs: number): Promise<(() => void) | undefined> {
    const owner = onBehalfOf.getStore() ?? "";
    if (this.#taken) {
      const came = await new Promise<boolean>((resolve) => {
        const patience = setTimeout(
          () => {
            this.#waiting = this.#waiting.filter((one) => one !== waiting);
            resolve(false);
          },
          Math.max(0, giveUpAtMs - performance.now()),
        );
        const onTurn = () => {
          clearTimeout(patience);
          resolve(true);
        };
        const waiting = { owner, onTurn };
        this.#waiting.push(waiting);
      });
      if (!came) return undefined;
    }
    this.#taken = true;
    this.#turn += 1;
    this.#lastTurns.set(owner, this.#turn);
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.#passOn();
    };
  }

  #passOn(): void {
    let next: Waiting | undefined;
    for (const one of this.#waiting) {
      if (next === undefined || this.#lastTurnOf(one) < this.#lastTurnOf(next)) next = one;
    }
    if (next === undefined) {
      this.#taken = false;
      this.#lastTurns.clear();
      return;
    }
    // #taken stays true: a new caller cannot overtake it.
    this.#waiting = this.#waiting.filter((one) => one !== next);
    next.onTurn();
  }

  #lastTurnOf({ owner }: Waiting): number {
    return this.#lastTurns.get(owner) ?? 0;
  }
}
