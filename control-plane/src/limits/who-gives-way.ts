// Decides who gives way when everything of something is taken: places in a line, streams, memory. Nobody can then keep others out by holding
// places for long: whoever has few gets one from whoever has the most. The share of an app does not grow with its tokens.

/** What somebody has taken. */
export interface Taken {
  /** Empty: not of one app. */
  readonly app: string;
  /** The token or the member. */
  readonly name: string;
  /** In any unit, the same for all. */
  readonly size: number;
}

/**
 * Chooses in the app that has the most, or in the newcomer's own app, and there of the name that has the most.
 *
 * @param newcomer with the size of what it asks for
 * @returns the largest, and the last of equals; undefined if nobody has more than the newcomer would have
 */
export function whoGivesWay<One extends Taken>(taken: Iterable<One>, newcomer: Taken): One | undefined {
  const apps = Map.groupBy(taken, ({ app }) => app);
  const own = apps.get(newcomer.app) ?? [];
  const largest = largestOf(apps.values(), sum) ?? [];
  const isOwn = sum(largest) <= sum(own) + newcomer.size;
  const names = Map.groupBy(isOwn ? own : largest, ({ name }) => name);
  const most = largestOf(names.values(), sum) ?? [];
  if (isOwn && sum(most) <= sum(names.get(newcomer.name) ?? []) + newcomer.size) return undefined;
  return largestOf(most.toReversed(), ({ size }) => size);
}

function sum(taken: readonly Taken[]): number {
  return taken.reduce((all, { size }) => all + size, 0);
}

function largestOf<One>(all: Iterable<One>, sizeOf: (one: One) => number): One | undefined {
  let largest: One | undefined;
  for (const one of all) if (largest === undefined || sizeOf(one) > sizeOf(largest)) largest = one;
  return largest;
}
