// A fair queue for one shared worker: apps take turns, and the tokens of an app take turns within it. When the queue is
// full, whoever has the most items in it loses one, so that nobody fills it for others, however many tokens they make.

export interface Waiter {
  /** Empty for a token that is for all apps. */
  readonly app: string;
  readonly name: string;
}

/** The most items of one token, and of all tokens. */
const mostOfToken = 64;
const mostOfAll = 256;

export class FairLine<Item> {
  /** Keyed by app, then by token, each in the order in which they came. The first has the next turn. */
  readonly #apps = new Map<string, Map<string, Item[]>>();
  #count = 0;

  /** @returns the item that gets no place: one of whoever has the most, or the new one; undefined if there is room */
  add({ app, name }: Waiter, item: Item): Item | undefined {
    const tokens = this.#apps.get(app) ?? new Map<string, Item[]>();
    const queue = tokens.get(name) ?? [];
    if (queue.length >= mostOfToken) return item;
    const out = this.#count >= mostOfAll ? this.#giveWay(tokens, queue) : undefined;
    if (this.#count >= mostOfAll) return item;
    queue.push(item);
    this.#apps.set(app, tokens.set(name, queue));
    this.#count += 1;
    return out;
  }

  take(): Item | undefined {
    const [turn] = this.#apps;
    const [queueOfTurn] = turn?.[1] ?? [];
    if (turn === undefined || queueOfTurn === undefined) return undefined;
    const [app, tokens] = turn;
    const [name, queue] = queueOfTurn;
    const item = queue.shift();
    this.#count -= 1;
    // The token and the app move to the end of the queue, if they have more items.
    tokens.delete(name);
    if (queue.length > 0) tokens.set(name, queue);
    this.#apps.delete(app);
    if (tokens.size > 0) this.#apps.set(app, tokens);
    return item;
  }

  /**
   * Removes the last item of a token that has more items than the newcomer would have: of the app with the most items, or of
   * the newcomer's own app.
   * @returns the removed item, if there is one
   */
  #giveWay(own: Map<string, Item[]>, ownQueue: readonly Item[]): Item | undefined {
    const largest = longest([...this.#apps.values()], sizeOf) as Map<string, Item[]>;
    const tokens = sizeOf(largest) > sizeOf(own) + 1 ? largest : own;
    const queue = longest([...tokens.values()], (one) => one.length);
    if (queue === undefined || (tokens === own && queue.length <= ownQueue.length + 1)) return undefined;
    this.#count -= 1;
    return queue.pop();
  }
}

function sizeOf<Item>(tokens: Map<string, Item[]>): number {
  return [...tokens.values()].reduce((sum, { length }) => sum + length, 0);
}

function longest<One>(all: readonly One[], lengthOf: (one: One) => number): One | undefined {
  return all.reduce<One | undefined>(
    (most, one) => (most === undefined || lengthOf(one) > lengthOf(most) ? one : most),
    undefined,
  );
}
