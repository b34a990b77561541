// The client of the check API: what each call asks, and who decides it. It relies on batches.ts for checks that go together, and
// on the pause that all calls obey after a failure.

import { readDecision, readDecisions, readHoldText, readReport } from "./answers.ts";
import { Batches, type Heard } from "./batches.ts";
import {
  type AcquireOptions,
  type Check,
  type CheckOptions,
  copyOf,
  type HoldOptions,
  jsonOf,
  jsonOfHold,
  maxWaitOf,
} from "./checks.ts";
import type { ClientOptions } from "./client-options.ts";
import { type Decision, type DecisionOfAll, decidedByFailure, type ReportDecision } from "./decision.ts";
import { described } from "./described-value.ts";
import { type CallName, type SluiceEvent, tell } from "./events.ts";
import { Exchange } from "./exchange.ts";
import { type Hold, holdWithoutSlots, RenewedHold } from "./hold.ts";
import { askAlone, type LoneRequest } from "./lone-requests.ts";
import { Refusals } from "./refusals.ts";
import { readOptions, type Settings } from "./settings.ts";

/** With a hold if it is allowed. */
export type HeldDecision = Decision & { readonly hold?: Hold };

export class SluiceClient {
  readonly #settings: Settings;
  readonly #exchange: Exchange;
  readonly #batches: Batches;
  readonly #refusals: Refusals;
  readonly #holds = new Set<RenewedHold>();
  #isClosed = false;

  /** @throws TypeError that names the wrong option */
  constructor(options: ClientOptions) {
    this.#settings = readOptions(options);
    this.#exchange = new Exchange(this.#settings);
    this.#batches = new Batches(this.#settings, this.#exchange);
    this.#refusals = new Refusals(this.#settings.rememberRefusalsMs, this.#settings.maxRemembered);
  }

  /** Charges the counter, or is refused. A check of no units only looks. @throws SluiceError for a mistake of the caller */
  check(policy: string, key: readonly string[], options: CheckOptions = {}): Promise<Decision> {
    return this.#call("check", policy, async () => {
      const check = copyOf({ ...options, policy, key });
      const json = jsonOf(check);
      if (check.cost === 0) return this.#askOne(policy, json);
      const remembered = this.#refusals.recall(check);
      if (remembered !== undefined) return { decision: remembered, batch: 0 };
      const heard = await this.#batches.decide(check, json);
      if ("decision" in heard) this.#refusals.learn(check, heard.decision, heard.sentAtMs);
      return heard;
    });
  }

  /** Charges all counters, or none. @throws SluiceError for a mistake of the caller */
  async checkAll(checks: readonly Check[]): Promise<DecisionOfAll> {
    return this.#call<DecisionOfAll>("checkAll", checks?.[0]?.policy ?? "", async () => {
      if (!Array.isArray(checks)) throw new TypeError(`checks: expected a list of checks, got ${described(checks)}`);
      const copies = (checks as readonly Check[]).map((check, i) => copyOf(check, `checks[${i}].`));
      const policies = copies.map(({ policy }) => policy);
      const body = `{"checks":[${copies.map((check) => jsonOf(check)).join()}]}`;
      return this.#askAlone<DecisionOfAll>({
        path: "check",
        body,
        checks: copies.length,
        timeoutMs: this.#settings.deadlineMs,
        read: (answer) => {
          const results = readDecisions(answer, policies);
          return results && { allowed: answer["allowed"] === true, results, source: "gateway" };
        },
        otherwise: (failure) => {
          const allowed = this.#settings.failureAllows;
          const results = policies.map((policy) => decidedByFailure(policy, allowed, failure));
          return { allowed, results, source: "failure", failure };
        },
      });
    });
  }

  /** Looks, and charges nothing. @throws SluiceError for a mistake of the caller */
  peek(policy: string, key: readonly string[], options: CheckOptions = {}): Promise<Decision> {
    return this.#call("peek", policy, async () => {
      return this.#askOne(policy, jsonOf(copyOf({ ...options, policy, key }), { peek: true }));
    });
  }

  /**
   * Charges what was used already, also beyond what is left. If it fails, it is not known whether it was charged.
   *
   * @throws SluiceError for a mistake of the caller
   */
  report(policy: string, key: readonly string[], options: CheckOptions = {}): Promise<ReportDecision> {
    return this.#call("report", policy, async () => {
      const json = jsonOf(copyOf({ ...options, policy, key }), { report: true });
      return this.#askAlone<ReportDecision>({
        path: "check",
        body: `{"checks":[${json}]}`,
        checks: 1,
        timeoutMs: this.#settings.deadlineMs,
        read: (answer) => readReport(answer, policy),
        otherwise: (failure) => ({ ...decidedByFailure(policy, this.#settings.failureAllows, failure), debt: 0 }),
      });
    });
  }

  /** Waits in line until the counter can be charged, but not longer than `maxWaitMs`. @throws SluiceError for a mistake of the caller */
  acquire(policy: string, key: readonly string[], options: AcquireOptions): Promise<Decision> {
    return this.#call("acquire", policy, async () => {
      const { maxWaitMs, signal } = options;
      const check = copyOf({ ...options, policy, key });
      signal?.throwIfAborted();
      const json = jsonOf(check, { maxWait: maxWaitOf(maxWaitMs) });
      const heard = await this.#askOne(policy, json, maxWaitMs, signal);
      if ("decision" in heard && heard.decision.allowed && heard.decision.source === "gateway") {
        this.#refusals.forget(check);
      }
      return heard;
    });
  }

  /** Takes slots of a limit of concurrency, and renews them until they are released. @throws SluiceError for a mistake of the caller */
  hold(policy: string, key: readonly string[], options: HoldOptions = {}): Promise<HeldDecision> {
    return this.#call("hold", policy, async () => {
      const body = jsonOfHold(copyOf({ policy, key, plan: options.plan }), options);
      const timeoutMs = this.#settings.deadlineMs + (options.maxWaitMs ?? 0);
      return this.#askAlone<HeldDecision>({
        path: "hold",
        body,
        checks: 1,
        timeoutMs,
        read: (answer) => this.#readHeld(policy, answer),
        otherwise: (failure) => {
          const decision = decidedByFailure(policy, this.#settings.failureAllows, failure);
          return decision.allowed ? { ...decision, hold: holdWithoutSlots() } : decision;
        },
      });
    });
  }

  /** Ends idle connections and the renewal of holds, which it does not release. Later calls are errors. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const hold of [...this.#holds]) hold.stopRenewing();
    this.#exchange.close();
  }

  #readHeld(policy: string, answer: Readonly<Record<string, unknown>>): HeldDecision | undefined {
    const decision = readDecision(answer, policy);
    if (decision?.allowed !== true) return decision;
    const text = readHoldText(answer);
    if (text === undefined) return undefined;
    const hold = new RenewedHold(this.#exchange, text, this.#settings.deadlineMs, (ended) => this.#holds.delete(ended));
    if (this.#isClosed) hold.stopRenewing();
    else this.#holds.add(hold);
    return { ...decision, hold };
  }

  /** @param json of the only check */
  #askOne(policy: string, json: string, maxWaitMs = 0, signal?: AbortSignal): Promise<Heard<Decision>> {
    return this.#askAlone<Decision>({
      path: "check",
      body: `{"checks":[${json}]}`,
      checks: 1,
      timeoutMs: this.#settings.deadlineMs + maxWaitMs,
      signal,
      read: (answer) => readDecisions(answer, [policy])?.[0],
      otherwise: (failure) => decidedByFailure(policy, this.#settings.failureAllows, failure),
    });
  }

  #askAlone<T>(request: LoneRequest<T>): Promise<Heard<T>> {
    return askAlone(this.#exchange, this.#batches.pause, request);
  }

  /** Makes the call, and tells the hook what came of it. */
  async #call<T extends Pick<Decision, "allowed" | "source">>(
    call: CallName,
    policy: string,
    decide: () => Promise<Heard<T>>,
  ): Promise<T> {
    const startedAtMs = performance.now();
    const finish = (end: Pick<SluiceEvent, "outcome" | "source" | "batch">) =>
      tell(this.#settings.onEvent, { call, policy, ...end, seconds: (performance.now() - startedAtMs) / 1000 });
    let batch = 0;
    try {
      if (this.#isClosed) throw new Error("the client is closed");
      const heard = await decide();
      batch = heard.batch;
      if ("error" in heard) throw heard.error;
      const { allowed, source } = heard.decision;
      finish({ outcome: allowed ? "allowed" : "refused", source, batch });
      return heard.decision;
    } catch (error) {
      finish({ outcome: "error", batch });
      throw error;
    }
  }
}
