// A fair queue for one shared worker: owners take turns, and the tokens of an owner take turns within it. When the queue is
// full, whoever has the most items in it loses one, so that nobody fills it for others, however many tokens they make.

import { whoGivesWay } from "../limits/who-gives-way.ts";

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
    const out = this.#count >= mostOfAll ? this.#giveWay({ owner, token }) : undefined;
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

  /** @returns the removed item, the last one of its token; undefined if nobody has more than the newcomer would have */
  #giveWay({ owner, token }: Waiter): Item | undefined {
    const queues = [...this.#owners].flatMap(([app, tokens]) =>
      [...tokens].map(([name, queue]) => ({ app, name, size: queue.length, queue, tokens })),
    );
    const most = whoGivesWay(queues, { app: owner, name: token, size: 1 });
    if (most === undefined) return undefined;
    this.#count -= 1;
    const item = most.queue.pop();
    // An empty line would get a turn, in which nobody is served.
    if (most.queue.length === 0) most.tokens.delete(most.name);
    return item;
  }
}
