// A queue for something that one at a time may have. Who waits for longer than they want to goes away.

export class Turns {
  readonly #waiting: (() => void)[] = [];
  #taken = false;

  /**
   * @param giveUpAtMs by `performance.now()`
   * @returns gives the turn to the next, or undefined when it did not come in time
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
      // Stays taken meanwhile: nobody who comes now is before one who waited.
      if (next === undefined) this.#taken = false;
      else next();
    };
  }
}
