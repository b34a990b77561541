// A queue that takes no more memory than what waits in it, also if it is never empty.

export interface Queue<Item extends object> {
  readonly items: LuaTable<number, Item | undefined>;
  /** The place of the oldest item. */
  first: number;
  /** The place after the newest item. */
  next: number;
}

export function newQueue<Item extends object>(): Queue<Item> {
  return { items: new LuaTable(), first: 1, next: 1 };
}

export function lengthOf({ first, next }: Pick<Queue<object>, "first" | "next">): number {
  return next - first;
}

export function enqueue<Item extends object>(queue: Queue<Item>, item: Item): void {
  queue.items.set(queue.next, item);
  queue.next += 1;
}

/** Returns the oldest item, which stays; undefined: the queue is empty. */
export function oldestOf<Item extends object>({ items, first }: Queue<Item>): Item | undefined {
  return items.get(first);
}

/** Takes the oldest item; undefined: the queue is empty. */
export function dequeue<Item extends object>(queue: Queue<Item>): Item | undefined {
  const item = queue.items.get(queue.first);
  if (item === undefined) return undefined;
  queue.items.delete(queue.first);
  queue.first += 1;
  if (queue.first === queue.next) {
    // Small places are in the array of the Lua table, which is faster than its hash.
    queue.first = 1;
    queue.next = 1;
  }
  return item;
}
