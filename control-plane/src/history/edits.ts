// Finds the fewest items that went and came between two lists, by the greedy search of E. W. Myers, "An O(ND) Difference Algorithm and Its
// Variations" (1986). The search takes the square of their number, so it has a bound.

/** Items of the list before in whose place are items of the list after. What is not in an edit is the same in both. */
export interface Edit {
  /** The index in the list before. */
  readonly from: number;
  readonly removed: number;
  /** The index in the list after. */
  readonly to: number;
  readonly added: number;
}

/** What searches that share it may still compute: steps of some nanoseconds. */
export interface Effort {
  left: number;
}

/** @returns in order, none next to another; undefined if the effort is used up */
export function editsBetween(before: readonly string[], after: readonly string[], effort: Effort): Edit[] | undefined {
  const ids = new Map<string, number>();
  const idOf = (item: string) => {
    const id = ids.get(item) ?? ids.size;
    ids.set(item, id);
    return id;
  };
  const [a, b] = [Int32Array.from(before, idOf), Int32Array.from(after, idOf)];
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const [removed, added] = [a.length - head - tail, b.length - head - tail];
  if (removed === 0 || added === 0) return removed + added === 0 ? [] : [{ from: head, removed, to: head, added }];
  const rows = search(a.subarray(head, head + removed), b.subarray(head, head + added), effort);
  return rows === undefined ? undefined : walkBack(rows, removed, added, head);
}

/**
 * Finds how far one comes with so many removals and additions.
 *
 * @returns by their number, and then by the diagonals from -number in steps of two: the index in `a` that is reached. The last ones reach the
 * ends of both
 */
function search(a: Int32Array, b: Int32Array, effort: Effort): Int32Array[] | undefined {
  const rows: Int32Array[] = [];
  for (let edits = 0; effort.left > 0; edits++) {
    const former = rows[edits - 1];
    const row = new Int32Array(edits + 1);
    rows.push(row);
    effort.left -= edits + 1;
    for (let i = 0; i <= edits; i++) {
      const diagonal = 2 * i - edits;
      const start = former === undefined ? 0 : comesByAddition(former, i) ? at(former, i) : at(former, i - 1) + 1;
      let x = start;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x += 1;
      effort.left -= x - start;
      row[i] = x;
      if (x >= a.length && x - diagonal >= b.length) return rows;
    }
  }
  return undefined;
}

/** Whether the best way to a diagonal ends with an addition, and not with a removal. */
function comesByAddition(former: Int32Array, i: number): boolean {
  return i === 0 || (i < former.length && at(former, i - 1) < at(former, i));
}

function at(row: Int32Array, i: number): number {
  return row[i] as number;
}

function walkBack(rows: readonly Int32Array[], removed: number, added: number, head: number): Edit[] {
  const found: Edit[] = [];
  let [x, y] = [removed, added];
  for (let edits = rows.length - 1; edits > 0; edits--) {
    const former = rows[edits - 1] as Int32Array;
    const diagonal = x - y;
    const i = (diagonal + edits) / 2;
    const isAddition = comesByAddition(former, i);
    x = at(former, isAddition ? i : i - 1);
    y = x - (diagonal + (isAddition ? 1 : -1));
    const edit = { from: head + x, removed: isAddition ? 0 : 1, to: head + y, added: isAddition ? 1 : 0 };
    const next = found.at(-1);
    if (next?.from === edit.from + edit.removed && next.to === edit.to + edit.added) {
      found.splice(-1, 1, { ...edit, removed: edit.removed + next.removed, added: edit.added + next.added });
    } else found.push(edit);
  }
  return found.reverse();
}
