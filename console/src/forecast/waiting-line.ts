// A line keeps its items in the order in which they came. To add, to find and to remove one takes the same time, however many wait.

export class WaitingLine<Item> {
  /** Also those that have left, as undefined. */
  readonly #items: (Item | undefined)[] = [];
  readonly #places = new Map<Item, number>();
  #first = 0;

  get length(): number {
    return this.#places.size;
  }

  get first(): Item | undefined {
    while (this.#first < this.#items.length && this.#items[this.#first] === undefined) this.#first += 1;
    return this.#items[this.#first];
  }

  add(item: Item): void {
    this.#places.set(item, this.#items.length);
    this.#items.push(item);
  }

  /** @returns whether it waited */
  remove(item: Item): boolean {
    const place = this.#places.get(item);
    if (place === undefined) return false;
    this.#places.delete(item);
    this.#items[place] = undefined;
    return true;
  }
}
