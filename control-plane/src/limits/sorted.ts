// Sorts long lists in pieces of some milliseconds: a hundred thousand texts would take 200 ms in one go.

/** Items that are sorted, or joined, without looking how long it took. */
const itemsAtOnce = 1_000;

/** @param pause is called between steps of some milliseconds, and resolves when it is time for the next one */
export async function sorted<Item>(
  items: readonly Item[],
  isBefore: (one: Item, other: Item) => boolean,
  pause: () => Promise<void>,
): Promise<Item[]> {
  let runs: Item[][] = [];
  for (let at = 0; at < items.length; at += itemsAtOnce) {
    runs.push(items.slice(at, at + itemsAtOnce).sort((a, b) => (isBefore(a, b) ? -1 : 1)));
    await pause();
  }
  while (runs.length > 1) {
    const longer: Item[][] = [];
    for (let i = 0; i < runs.length; i += 2)
      longer.push(await oneRun(runs[i] ?? [], runs[i + 1] ?? [], isBefore, pause));
    runs = longer;
  }
  return runs[0] ?? [];
}

async function oneRun<Item>(
  one: readonly Item[],
  other: readonly Item[],
  isBefore: (one: Item, other: Item) => boolean,
  pause: () => Promise<void>,
): Promise<Item[]> {
  const run: Item[] = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    const [a, b] = [one[i], other[j]];
    if (b === undefined || (a !== undefined && isBefore(a, b))) {
      run.push(a as Item);
      i += 1;
    } else {
      run.push(b);
      j += 1;
    }
    if (run.length % itemsAtOnce === 0) await pause();
  }
  return run;
}
