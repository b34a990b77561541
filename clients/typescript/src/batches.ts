// Puts checks that come at the same time into one request. A check goes at once if fewer than `maxInFlight` requests are under way;
// otherwise it waits for the end of one, with all that come meanwhile. Each check has its own deadline.

import { readDecisions } from "./answers.ts";
import type { Check } from "./checks.ts";
import { type Decision, decidedByFailure } from "./decision.ts";
import { type Exchange, failed, type Reply } from "./exchange.ts";
import { Pause } from "./pause.ts";
import type { Settings } from "./settings.ts";
import { type SluiceError, splitError } from "./sluice-error.ts";

/** What a call hears, and how many checks its request had. */
export type Heard<T> = { readonly batch: number } & ({ readonly decision: T } | { readonly error: SluiceError });

/** When its request was sent, by performance.now(). */
export type HeardCheck = Heard<Decision> & { readonly sentAtMs: number };

interface Waiting {
  readonly check: Check;
  readonly json: string;
  readonly deadlineAtMs: number;
  readonly hear: (heard: HeardCheck) => void;
  timer: NodeJS.Timeout | undefined;
  /** Checks in its request; 0: it waits for one. */
  batch: number;
  sentAtMs: number;
  isDecided: boolean;
}

/** The gateway takes 64 KiB. */
const mostBodyBytes = 60 * 1024;
const start = '{"mode":"each","checks":[';
const end = "]}";

export class Batches {
  /** It decides for all requests of the client. */
  readonly pause: Pause;
  readonly #settings: Settings;
  readonly #exchange: Exchange;
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiting>();
  /** Requests that go before all others: what was refused because of another check. */
  readonly #again: Waiting[][] = [];
  #inFlight = 0;

  constructor(settings: Settings, exchange: Exchange) {
    this.#settings = settings;
    this.#exchange = exchange;
    this.pause = new Pause(settings.retryAfterFailureMs, (failure) => this.#failWaiting(failure));
  }

  /** @param json of the check */
  decide(check: Check, json: string): Promise<HeardCheck> {
    return new Promise((hear) => {
      const { deadlineMs } = this.#settings;
      const deadlineAtMs = performance.now() + deadlineMs;
      const one: Waiting = {
        check,
        json,
        deadlineAtMs,
        hear,
        timer: undefined,
        batch: 0,
        sentAtMs: 0,
        isDecided: false,
      };
      this.#waiting.add(one);
      this.#sendWaiting();
      if (this.#waiting.has(one)) this.#watchDeadline(one);
    });
  }

  #watchDeadline(one: Waiting): void {
    clearTimeout(one.timer);
    // As in exchange.ts: an answer that has come by then is heard first.
    const expire = () => setImmediate(() => this.#expire(one));
    one.timer = setTimeout(expire, one.deadlineAtMs - performance.now()).unref();
  }

  #expire(one: Waiting): void {
    this.#waiting.delete(one);
    this.#fail(one, `There was no decision within ${this.#settings.deadlineMs} ms.`);
  }

  #sendWaiting(): void {
    const { failure } = this.pause;
    if (failure !== undefined) this.#failWaiting(failure);
    while (this.#inFlight < this.#settings.maxInFlight) {
      const again = this.#again.shift();
      const batch = again?.filter(({ isDecided }) => !isDecided) ?? this.#nextBatch();
      if (batch.length > 0) void this.#send(batch, again !== undefined);
      else if (again === undefined) return;
    }
  }

  #nextBatch(): Waiting[] {
    const batch: Waiting[] = [];
    let bytes = start.length + end.length;
    for (const one of this.#waiting) {
      bytes += Buffer.byteLength(one.json) + 1;
      if (batch.length === this.#settings.maxBatch || (batch.length > 0 && bytes > mostBodyBytes)) break;
      batch.push(one);
    }
    for (const one of batch) this.#waiting.delete(one);
    return batch;
  }

  async #send(batch: readonly Waiting[], isAgain: boolean): Promise<void> {
    this.#inFlight += 1;
    const lastAtMs = batch.reduce((latest, { deadlineAtMs }) => Math.max(latest, deadlineAtMs), 0);
    for (const one of batch) {
      one.batch = batch.length;
      one.sentAtMs = performance.now();
      // Calls of the last moment fail with the request, which begins the pause before anybody hears of the failure.
      if (lastAtMs - one.deadlineAtMs <= 1) clearTimeout(one.timer);
    }
    const body = `${start}${batch.map(({ json }) => json).join()}${end}`;
    const reply = await this.#exchange.post("/sluice/v1/check", body, lastAtMs - performance.now());
    this.#inFlight -= 1;
    this.#hear(batch, reply, isAgain);
    this.#sendWaiting();
  }

  #hear(batch: readonly Waiting[], reply: Reply, isAgain: boolean): void {
    if (reply.kind === "error") {
      this.#hearError(batch, reply.error, isAgain);
      return;
    }
    const policies = batch.map(({ check }) => check.policy);
    const decisions = reply.kind === "answer" ? readDecisions(reply.body, policies) : undefined;
    if (decisions === undefined) {
      const failure = reply.kind === "failure" ? reply : failed("The gateway's answer has not the shape of an answer.");
      for (const one of batch) this.#fail(one, failure.failure);
      if (failure.wasKept !== true) this.pause.begin(failure);
      return;
    }
    for (const [i, decision] of decisions.entries()) {
      const one = batch[i] as Waiting;
      this.#settle(one, { decision, batch: one.batch });
    }
  }

  /** Nothing was charged: whoever is not to blame is asked for again. */
  #hearError(batch: readonly Waiting[], error: SluiceError, isAgain: boolean): void {
    const { named, ofOthers } = splitError(error, batch.length);
    const isOfSome = batch.length > 1 && (error.status === 400 || error.status === 404);
    const others = isOfSome ? batch.filter((_, i) => !named.has(i)) : [];
    for (const [i, one] of batch.entries()) {
      if (!others.includes(one)) this.#settle(one, { error: named.get(i) ?? ofOthers, batch: one.batch });
    }
    // A second mistake of others would be found only in the next answer. Then they part.
    const together = named.size > 0 && !isAgain;
    if (others.length > 0) this.#again.push(...(together ? [others] : others.map((one) => [one])));
    for (const one of others) this.#watchDeadline(one);
  }

  #failWaiting(failure: string): void {
    const all = [...this.#again.splice(0).flat(), ...this.#waiting];
    this.#waiting.clear();
    for (const one of all) this.#fail(one, failure);
  }

  #fail(one: Waiting, failure: string): void {
    const decision = decidedByFailure(one.check.policy, this.#settings.failureAllows, failure);
    this.#settle(one, { decision, batch: one.batch });
  }

  #settle(one: Waiting, heard: Heard<Decision>): void {
    clearTimeout(one.timer);
    if (one.isDecided) return;
    one.isDecided = true;
    one.hear({ ...heard, sentAtMs: one.sentAtMs });
  }
}
