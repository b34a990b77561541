// Decides whose request begins next, so that somebody who asks for much delays others by one request at most. Owners take turns as flows
// do in FQ-CoDel (RFC 8290, §4.1 and §4.2): each turn gives an owner some milliseconds of the thread, what a request took is charged to its
// owner, and an owner who has asked for nothing lately comes first. One request begins in a round of the event loop, so that everything
// else that waits, as the sockets of gateways, is served between any two.

/** What an owner may use in a turn. */
const turnMs = 5;

interface Flow {
  readonly owner: string;
  readonly waiting: (() => void)[];
  /** What it may still use in its turn. Below 0: it has used more. */
  leftMs: number;
}

export class FairSchedule {
  readonly #flows = new Map<string, Flow>();
  /** Owners who have just come, and those whose turns come after each other. */
  readonly #fresh: Flow[] = [];
  readonly #others: Flow[] = [];
  readonly #nowMs: () => number;
  #waitingInAll = 0;
  #isRunning = false;

  /** @param nowMs returns milliseconds of a clock that never steps back */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** How many requests wait for their turns. */
  get waiting(): number {
    return this.#waitingInAll;
  }

  /** Resolves when a request of the owner may begin. What the thread does until the next one begins is charged to the owner. */
  turn(owner: string): Promise<void> {
    return new Promise((resolve) => {
      this.#flowOf(owner).waiting.push(resolve);
      this.#waitingInAll += 1;
      if (this.#isRunning) return;
      this.#isRunning = true;
      setImmediate(() => this.#beginNext());
    });
  }

  #flowOf(owner: string): Flow {
    const known = this.#flows.get(owner);
    if (known !== undefined) return known;
    const flow = { owner, waiting: [], leftMs: turnMs };
    this.#flows.set(owner, flow);
    this.#fresh.push(flow);
    return flow;
  }

  #beginNext(): void {
    const flow = this.#next();
    if (flow === undefined) {
      this.#isRunning = false;
      return;
    }
    const beganMs = this.#nowMs();
    this.#waitingInAll -= 1;
    flow.waiting.shift()?.();
    setImmediate(() => {
      flow.leftMs -= this.#nowMs() - beganMs;
      this.#beginNext();
    });
  }

  /** @returns an owner who has a request waiting and may use the thread; undefined: nobody has */
  #next(): Flow | undefined {
    if (this.#waitingInAll === 0) {
      // Nobody has to wait for anybody: what was used is forgotten.
      this.#flows.clear();
      this.#fresh.length = 0;
      this.#others.length = 0;
      return undefined;
    }
    for (;;) {
      const isFresh = this.#fresh.length > 0;
      const line = isFresh ? this.#fresh : this.#others;
      const flow = line[0] as Flow;
      if (flow.leftMs <= 0) {
        flow.leftMs += turnMs;
      } else if (flow.waiting.length > 0) {
        return flow;
      } else if (!isFresh) {
        line.shift();
        this.#flows.delete(flow.owner);
        continue;
      }
      // An owner who comes and goes again and again must not be the first each time.
      line.shift();
      this.#others.push(flow);
    }
  }
}
