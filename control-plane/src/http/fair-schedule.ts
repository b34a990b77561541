// Decides whose request begins next, so that somebody who asks for much delays others by one request at most. This is fair queueing: time is
// virtual, each owner's requests follow each other in it, each as long as it had the thread, and the one that starts first in it begins (Goyal, Vin
// and Cheng, "Start-time Fair Queuing", SIGCOMM 1996, §2). So an owner who has used less than its share comes before all who have not. Owners of
// one network share the turns of the network in the same way: whoever has many addresses has no more turns for that. One request begins in a round of
// the event loop, so that everything else that waits, as the sockets of gateways, is served between any two. A round accepts one connection, so while
// somebody connects, rounds pass in which none begins: the queue of connections is everybody's, and requests must not make it long.

/** How many rounds may pass before the next request begins. Somebody always connects while a flood of connections lasts. */
const mostPassed = 64;

/** The requests of an owner, or the owners of a network, or all networks. */
interface Flow {
  /** Where its next request starts, in ms of the virtual time among its like. */
  startMs: number;
  /** How many requests wait, of all below. */
  waiting: number;
  readonly requests: (() => void)[];
  /** Those that have begun, and have waited for something else. */
  readonly goingOn: (() => void)[];
  /** Whether one of these had the last turn. */
  wentOn: boolean;
  readonly below: Map<string, Flow>;
  /**
   * The virtual time below: where the request started that began last. While newcomers come without end, it runs an eighth as fast as each of those
   * who wait is served, so that nobody waits until no newcomers come.
   */
  nowMs: number;
}

function flowFrom(startMs: number): Flow {
  return { startMs, waiting: 0, requests: [], goingOn: [], wentOn: false, below: new Map(), nowMs: 0 };
}

export class FairSchedule {
  #networks = flowFrom(0);
  readonly #nowMs: () => number;
  #begun = 0;
  /** Whether somebody has connected in this round. */
  #hasConnected = false;
  #isRunning = false;

  /** @param nowMs returns milliseconds of a clock that never steps back */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** How many requests wait for their turns. */
  get waiting(): number {
    return this.#networks.waiting;
  }

  /** How many turns have begun: a request whose turn was the last to begin has not let go of the thread. */
  get begun(): number {
    return this.#begun;
  }

  /**
   * Resolves when a request of the owner may begin, or go on. It is charged to the owner and its networks for how long it keeps the thread.
   *
   * @param owners those among whom turns are taken, from the largest networks to the owner: always as many
   * @param goesOn it has begun and has waited for something else. Those of an owner that go on, and those that have not begun, take turns
   */
  turn(owners: readonly string[], goesOn = false): Promise<void> {
    return new Promise((resolve) => {
      let ofOwner = this.#networks;
      for (const name of owners) ofOwner = enter(ofOwner, name);
      (goesOn ? ofOwner.goingOn : ofOwner.requests).push(resolve);
      this.#networks.waiting += 1;
      if (this.#isRunning) return;
      this.#isRunning = true;
      this.#beginNextSoon();
    });
  }

  /** Somebody has connected: more connections may wait to be accepted. */
  noteConnection(): void {
    this.#hasConnected = true;
  }

  /** @param passed how many rounds have passed since the last request began */
  #beginNextSoon(passed = 0): void {
    let path: Flow[] = [];
    let beganMs = 0;
    setImmediate(() => {
      if (this.#hasConnected && passed < mostPassed) return;
      if (this.#networks.waiting === 0) {
        // Nobody has to wait for anybody: what was used is forgotten.
        this.#networks = flowFrom(0);
        this.#isRunning = false;
        return;
      }
      path = [this.#networks];
      let ofOwner = this.#networks;
      while (ofOwner.below.size > 0) {
        ofOwner = firstOf(ofOwner);
        path.push(ofOwner);
      }
      for (const flow of path) flow.waiting -= 1;
      this.#begun += 1;
      beganMs = this.#nowMs();
      nextOf(ofOwner)?.();
    });
    // Between these two, the request runs until it waits for something.
    setImmediate(() => {
      if (!this.#isRunning) return;
      this.#hasConnected = false;
      if (path.length === 0) {
        this.#beginNextSoon(passed + 1);
        return;
      }
      const tookMs = this.#nowMs() - beganMs;
      path.forEach((flow, i) => {
        if (i > 0) flow.startMs += tookMs;
        flow.nowMs += tookMs / (8 * Math.max(countWaiting(flow), 1));
      });
      this.#beginNextSoon();
    });
  }
}

/** Returns the flow of this name, for which one request more is to wait. */
function enter(level: Flow, name: string): Flow {
  let flow = level.below.get(name);
  if (flow === undefined) {
    flow = flowFrom(level.nowMs);
    level.below.set(name, flow);
  } else if (flow.waiting === 0) {
    // Nobody saves up time in which they ask for nothing.
    flow.startMs = Math.max(flow.startMs, level.nowMs);
  }
  flow.waiting += 1;
  return flow;
}

/** Returns whose request starts first of those below, of whom somebody waits. */
function firstOf(level: Flow): Flow {
  let first: Flow | undefined;
  for (const [name, flow] of level.below) {
    if (flow.waiting === 0) {
      // It has used no more than its share.
      if (flow.startMs <= level.nowMs) level.below.delete(name);
    } else if (first === undefined || flow.startMs < first.startMs) first = flow;
  }
  const found = first as Flow;
  level.nowMs = Math.max(level.nowMs, found.startMs);
  return found;
}

function nextOf(ofOwner: Flow): (() => void) | undefined {
  const { requests, goingOn } = ofOwner;
  ofOwner.wentOn = goingOn.length > 0 && (requests.length === 0 || !ofOwner.wentOn);
  return (ofOwner.wentOn ? goingOn : requests).shift();
}

function countWaiting({ below }: Flow): number {
  let count = 0;
  for (const { waiting } of below.values()) if (waiting > 0) count += 1;
  return count;
}
