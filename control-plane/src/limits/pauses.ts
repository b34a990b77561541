// Cuts a long computation into pieces of some milliseconds, so that everybody else is served in between.

const longestPieceMs = 8;

/**
 * Returns what a long computation calls between its steps, however short they are.
 * @param nextTurn resolves when the computation may go on
 */
export function pauses(nextTurn: () => Promise<void>): () => Promise<void> {
  let beganMs = performance.now();
  return async () => {
    if (performance.now() - beganMs < longestPieceMs) return;
    await nextTurn();
    beganMs = performance.now();
  };
}
