// A queue for something that only one caller at a time may use. A caller that has waited for too long leaves the queue.

export class Turns {
  readonly #waiting: (() => void)[] = [];
  #taken = false;

  /**
   * @param giveUpAtMs by `performance.now()`
   * @returns a function that passes the turn on to the next caller, or undefined if the turn did not come in time
   */
  async take(giveUpAtMs: number): Promise<(() => void) | undefined> {
    if (this.#taken) {
      const came = await new Promise<boolean>((resolve) => {
        const patience = setTimeout(
          () => {
            this.#waiting.splice(this.#waiting.indexOf(onTurn), 1);
            resolve(false);
          },
          Math.max(0, giveUpAtMs - performance.now()),
        );
        const onTurn = () => {
          clearTimeout(patience);
          resolve(true);
        };
        this.#waiting.push(onTurn);
      });
      if (!came) return undefined;
    }
    this.#taken = true;
    let given = false;
    return () => {
      if (given) return;
      given = true;
      const next = this.#waiting.shift();
      // If a caller is waiting, #taken stays true: a new caller cannot overtake it.
      if (next === undefined) this.#taken = false;
      else next();
    };
  }
}
