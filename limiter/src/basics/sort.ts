// Sorts long lists in short steps: a runtime's own sort of ten thousand items holds requests up for many milliseconds.

import { noPause, type Pause } from "./pause.ts";

/** How many items are placed between two pauses. */
const itemsAtOnce = 32;

/** Returns the items in order; equal ones stay as they are. The list itself is changed too. */
export function sorted<Item>(
  items: Item[],
  isBefore: (this: void, a: Item, b: Item) => boolean,
  pause: Pause = noPause,
): Item[] {
  let from = items;
  let to: Item[] = [];
  const count = items.length;
  for (let width = 1; width < count; width *= 2) {
    for (let start = 0; start < count; start += 2 * width) {
      const middle = Math.min(start + width, count);
      const end = Math.min(start + 2 * width, count);
      let left = start;
      let right = middle;
      for (let place = start; place < end; place++) {
        const takesRight = left >= middle || (right < end && isBefore(from[right] as Item, from[left] as Item));
        to[place] = from[takesRight ? right : left] as Item;
        if (takesRight) right += 1;
        else left += 1;
        if (place % itemsAtOnce === 0) pause();
      }
    }
    const former = from;
    from = to;
    to = former;
  }
  return from;
}
