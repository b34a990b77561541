// Decides whose request begins next, so that somebody who asks for much delays others by one request at most. This is start-time fair
// queueing (Goyal, Vin and Cheng, "Start-time Fair Queuing", SIGCOMM 1996, §2): time is virtual, each owner's requests follow each other in
// it, each as long as it had the thread, and the one that starts first in it begins. So an owner who has used less than its share comes
// before all who have not. One request begins in a round of the event loop, so that everything else that waits, as the sockets of gateways,
// is served between any two.

interface Flow {
  readonly waiting: (() => void)[];
  /** Where its next request starts, in ms of virtual time. */
  startMs: number;
}

export class FairSchedule {
  readonly #flows = new Map<string, Flow>();
  readonly #nowMs: () => number;
  /** Where the request started that began last. */
  #virtualMs = 0;
  #waitingInAll = 0;
  #begun = 0;
  #isRunning = false;

  /** @param nowMs returns milliseconds of a clock that never steps back */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** How many requests wait for their turns. */
  get waiting(): number {
    return this.#waitingInAll;
  }

  /** How many turns have begun: a request whose turn was the last to begin has not let go of the thread. */
  get begun(): number {
    return this.#begun;
  }

  /**
   * Resolves when a request of the owner may begin, or go on. It is charged to the owner for how long it keeps the thread.
   *
   * @param goesOn it has begun and has waited for something else: it comes before those of the owner that have not begun
   */
  turn(owner: string, goesOn = false): Promise<void> {
    return new Promise((resolve) => {
      const { waiting } = this.#flowOf(owner);
      if (goesOn) waiting.unshift(resolve);
      else waiting.push(resolve);
      this.#waitingInAll += 1;
      if (this.#isRunning) return;
      this.#isRunning = true;
      this.#beginNextSoon();
    });
  }

  #flowOf(owner: string): Flow {
    const known = this.#flows.get(owner);
    if (known === undefined) {
      const flow = { waiting: [], startMs: this.#virtualMs };
      this.#flows.set(owner, flow);
      return flow;
    }
    // Nobody saves up time in which they ask for nothing.
    if (known.waiting.length === 0) known.startMs = Math.max(known.startMs, this.#virtualMs);
    return known;
  }

  #beginNextSoon(): void {
    let flow: Flow | undefined;
    let beganMs = 0;
    setImmediate(() => {
      flow = this.#next();
      beganMs = this.#nowMs();
      flow?.waiting.shift()?.();
    });
    // Between these two, the request runs until it waits for something.
    setImmediate(() => {
      if (flow === undefined) return;
      flow.startMs += this.#nowMs() - beganMs;
      this.#beginNextSoon();
    });
  }

  /** @returns whose request starts first; undefined: nobody has one waiting */
  #next(): Flow | undefined {
    if (this.#waitingInAll === 0) {
      // Nobody has to wait for anybody: what was used is forgotten.
      this.#flows.clear();
      this.#virtualMs = 0;
      this.#isRunning = false;
      return undefined;
    }
    let first: Flow | undefined;
    for (const [owner, flow] of this.#flows) {
      if (flow.waiting.length === 0) {
        // It has used no more than its share.
        if (flow.startMs <= this.#virtualMs) this.#flows.delete(owner);
      } else if (first === undefined || flow.startMs < first.startMs) first = flow;
    }
    if (first === undefined) return undefined;
    this.#waitingInAll -= 1;
    this.#begun += 1;
    this.#virtualMs = first.startMs;
    return first;
  }
}
