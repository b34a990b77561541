// Where many wait for one: apps take turns, and within an app its tokens do. When the line is full, whoever has the most in it
// gives way, so that nobody fills it for others, however many tokens they make.

export interface Waiter {
  /** Empty: of no app. */
  readonly app: string;
  readonly name: string;
}

/** Of one token, and of all. */
const mostOfToken = 64;
const mostOfAll = 256;

export class FairLine<Item> {
  /** By app, by token, each in the order they came; the first is the next to have a turn. */
  readonly #apps = new Map<string, Map<string, Item[]>>();
  #count = 0;

  /** @returns the item that has no place: of who has the most, or the one that came; undefined: there is room */
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
    // To the end of the line, if there is more of it.
    tokens.delete(name);
    if (queue.length > 0) tokens.set(name, queue);
    this.#apps.delete(app);
    if (tokens.size > 0) this.#apps.set(app, tokens);
    return item;
  }

  /** The last of who has more than the newcomer would have: of the app with the most, or of the same app. */
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
