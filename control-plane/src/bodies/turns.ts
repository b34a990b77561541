// One at a time for what keeps the main thread busy for milliseconds: a turn is a round of the event loop, in which
// everybody else is served first.

/** @returns resolves when it is the asker's turn, in the order in which they asked */
export function takeTurns(): () => Promise<void> {
  let last: Promise<unknown> = Promise.resolve();
  return async () => {
    const mine = last.then(() => new Promise((resolve) => setImmediate(resolve)));
    last = mine;
    await mine;
  };
}
