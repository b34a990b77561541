// Medians of the rounds, and of the ratios taken round by round.

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** @param share 0.99 for the 99th percentile */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Returns the spread of the rounds: (largest − smallest) ÷ median. */
export function spread(values: readonly number[]): number {
  return (Math.max(...values) - Math.min(...values)) / median(values);
}

/** Returns the median of the ratios within each round: what slows a whole round down affects both sides. */
export function ratio<T>(rounds: readonly T[], baseline: readonly T[], pick: (round: T) => number): number {
  return median(rounds.flatMap((round, i) => (baseline[i] === undefined ? [] : [pick(round) / pick(baseline[i])])));
}
