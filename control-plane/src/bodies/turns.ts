// Queues work that keeps the main thread busy for milliseconds: one piece of it runs per round of the event loop, so that
// all other requests are served first.

/** @returns a function whose promise resolves when the caller's turn comes, in the order of the calls */
export function takeTurns(): () => Promise<void> {
  let last: Promise<unknown> = Promise.resolve();
  return async () => {
    const mine = last.then(() => new Promise((resolve) => setImmediate(resolve)));
    last = mine;
    await mine;
  };
}
