// A fair queue for one shared worker: owners take turns, and the tokens of an owner take turns within it. When the queue is
// full, whoever has the most items in it loses one, so that nobody fills it for others, however many tokens they make.

export interface Waiter {
  /** See `ownerOf`. */
  readonly owner: string;
  /** The id of the token. */
  readonly token: string;
}

/** The most items of one token, and of all tokens. */
const mostOfToken = 64;
const mostOfAll = 256;

export class FairLine<Item> {
  /** Keyed by owner, then by token, each in the order in which they came. The first has the next turn. */
  readonly #owners = new Map<string, Map<string, Item[]>>();
  #count = 0;

  /** @returns the item that gets no place: one of whoever has the most, or the new one; undefined if there is room */
  add({ owner, token }: Waiter, item: Item): Item | undefined {
    const tokens = this.#owners.get(owner) ?? new Map<string, Item[]>();
    const queue = tokens.get(token) ?? [];
    if (queue.length >= mostOfToken) return item;
    const out = this.#count >= mostOfAll ? this.#giveWay(tokens, queue) : undefined;
    if (this.#count >= mostOfAll) return item;
    queue.push(item);
    this.#owners.set(owner, tokens.set(token, queue));
    this.#count += 1;
    return out;
  }

  take(): Item | undefined {
    const [turn] = this.#owners;
    const [queueOfTurn] = turn?.[1] ?? [];
    if (turn === undefined || queueOfTurn === undefined) return undefined;
    const [owner, tokens] = turn;
    const [token, queue] = queueOfTurn;
    const item = queue.shift();
    this.#count -= 1;
    // The token and its owner move to the end of the queue, if they have more items.
    tokens.delete(token);
    if (queue.length > 0) tokens.set(token, queue);
    this.#owners.delete(owner);
    if (tokens.size > 0) this.#owners.set(owner, tokens);
    return item;
  }

  /**
   * Removes the last item of a token that has more items than the newcomer would have: of the owner with the most items, or of
   * the newcomer's own.
   * @returns the removed item, if there is one
   */
  #giveWay(own: Map<string, Item[]>, ownQueue: readonly Item[]): Item | undefined {
    const largest = longest([...this.#owners.values()], sizeOf) as Map<string, Item[]>;
    const tokens = sizeOf(largest) > sizeOf(own) + 1 ? largest : own;
    const [token = "", queue = []] = longest([...tokens], ([, one]) => one.length) ?? [];
    if (tokens === own && queue.length <= ownQueue.length + 1) return undefined;
    this.#count -= 1;
    const item = queue.pop();
    // An empty line would get a turn, in which nobody is served.
    if (queue.length === 0) tokens.delete(token);
    return item;
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
