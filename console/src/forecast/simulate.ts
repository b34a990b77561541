// What a policy would do to traffic: the requests are played through the limiter's own algorithms, with counters in memory, by the rules of
// a gateway with one worker (gateway/src/decide). test/forecast compares the two, decision for decision.
//
// A gateway's clock advances in steps of a millisecond, and so does the one here.

import { type Decision, never } from "../../../limiter/src/algorithms/decision.ts";
import { type CompiledLimit, type CompiledPolicy, compilePolicy } from "../../../limiter/src/compiled/compile.ts";
import {
  clearMerged,
  type MergedDecision,
  mergeAll,
  newMergedDecision,
  otherItems,
} from "../../../limiter/src/compiled/merged-decision.ts";
import type { Delay } from "../../../limiter/src/document/on-limit.ts";
import type { Policy } from "../../../limiter/src/document/policy.ts";
import { isOpen, nextChangeSeconds, type Zones } from "../../../limiter/src/document/schedule.ts";
import { appliedTo } from "./applied.ts";
import { countersOf, decide, giveBack, type KeyCounters, renew, settle, slotsTaken } from "./counting.ts";
import { DueEvents } from "./due-events.ts";
import type { Traffic } from "./traffic.ts";
import { WaitingLine } from "./waiting-line.ts";

/**
 * - ignored: the policy does not count the request, so it goes on.
 * - admitted: it goes on at once.
 * - delayed: it goes on after a wait.
 * - marked: it is over the limit and goes on with a mark.
 * - refused: it is over the limit and gets another response.
 * - would-refuse: it is over the limit of a policy in shadow mode, and goes on.
 * - denied: it lacks a key value, or states an invalid cost.
 */
export const outcomes = ["ignored", "admitted", "delayed", "marked", "refused", "would-refuse", "denied"] as const;
export type Outcome = (typeof outcomes)[number];

export interface SimulationOptions {
  /** The zone of the policy's schedule. */
  readonly zones?: Zones;
  /** How long each request takes once it goes on. Slots of concurrency are held for so long. */
  readonly durationUs: number;
  /** What each response takes, for a policy with cost source response-bytes. */
  readonly responseBytes?: number;
  /** The counts of bins begin here; requests before it or after the last bin are played and not counted in bins. */
  readonly fromUs: number;
  readonly binUs: number;
  readonly binCount: number;
  /** Whether to return every decision. */
  readonly withDecisions?: boolean;
}

/** Numbers of requests by the bin in which they came. */
export interface Bins {
  readonly fromUs: number;
  readonly binUs: number;
  readonly offered: Uint32Array;
  /** All that go on, whether delayed, marked or not counted by the policy. */
  readonly admitted: Uint32Array;
  readonly delayed: Uint32Array;
  readonly marked: Uint32Array;
  /** Also those that are denied. */
  readonly refused: Uint32Array;
  /** Of those admitted: what shadow mode would have refused. */
  readonly wouldRefuse: Uint32Array;
}

export interface Refusal {
  readonly atUs: number;
  readonly keyIndex: number;
  /** The names of the limits that refused. */
  readonly limits: readonly string[];
}

/** A row for each request of the traffic. */
export interface Decisions {
  /** Indexes into `outcomes`. */
  readonly outcome: Uint8Array;
  /** The most restrictive limit, by its place in `limitNames`; 65,535: none was decided. */
  readonly limitIndex: Uint16Array;
  readonly limit: Float64Array;
  readonly remaining: Float64Array;
  /** -1: no wait can help. */
  readonly retryAfterUs: Float64Array;
  readonly resetAfterUs: Float64Array;
  readonly delayUs: Float64Array;
  /** The limits that refused: bit 0 is the policy's first. */
  readonly violated: Uint32Array;
  /** What follows the most restrictive limit in `RateLimit`. */
  readonly otherItems: string[];
}

export interface Simulation {
  readonly bins: Bins;
  readonly totals: Readonly<Record<Outcome, number>>;
  /** The first request that is refused, or would be in shadow mode. */
  readonly firstRefusal: Refusal | undefined;
  /** How many requests each limit of the policy refused, in the policy's order. */
  readonly refusedBy: readonly { readonly limit: string; readonly requests: number }[];
  readonly longestDelayUs: number;
  readonly decisions: Decisions | undefined;
}

const noLimit = 65_535;
const stepUs = 1000;
const renewalsPerLife = 3;
/** The pause between decisions if the limit cannot say when it has units again. */
const decideAgainMs = 10;

export function simulate(policy: Policy, traffic: Traffic, options: SimulationOptions): Simulation {
  const compiled = compilePolicy("forecast", policy, options.zones);
  return new Run(compiled, traffic, options).finish();
}

/** Returns the names of the limits of all plans, each once: what `limitIndex` counts in. */
export function limitNames({ limits, plans }: CompiledPolicy): readonly string[] {
  const lists = [limits, ...Object.values(plans?.policies ?? {}).map((policy) => policy.limits)];
  return [...new Set(lists.flat().map(({ name }) => name))];
}

/** Requests that wait for the units of one key, as in gateway/src/charging/delay.ts. */
interface Queue {
  readonly waiting: WaitingLine<WaitingRequest>;
  readonly refusal: MergedDecision;
  nextAtMs: number;
}

interface WaitingRequest {
  readonly index: number;
  readonly cost: number;
  readonly sinceUs: number;
  readonly untilMs: number;
}

interface KeyState extends KeyCounters {
  readonly queue: Queue;
}

class Run {
  readonly #policy: CompiledPolicy;
  readonly #traffic: Traffic;
  readonly #options: SimulationOptions;
  readonly #events = new DueEvents();
  readonly #keys: ("ignored" | "denied" | KeyState)[];
  readonly #merged = newMergedDecision();
  readonly #decisions: Decisions | undefined;
  readonly #bins: Bins;
  readonly #counts = new Float64Array(outcomes.length);
  readonly #limits: readonly string[];
  readonly #refusedBy: number[];
  #waiting = 0;
  #firstRefusal: Refusal | undefined;
  #longestDelayUs = 0;
  #isOpen = true;
  #openUntilSeconds = Number.NEGATIVE_INFINITY;

  constructor(policy: CompiledPolicy, traffic: Traffic, options: SimulationOptions) {
    const { fromUs, binUs, binCount, withDecisions } = options;
    this.#policy = policy;
    this.#traffic = traffic;
    this.#options = options;
    this.#limits = limitNames(policy);
    this.#refusedBy = this.#limits.map(() => 0);
    const column = () => new Uint32Array(binCount);
    this.#bins = {
      fromUs,
      binUs,
      offered: column(),
      admitted: column(),
      delayed: column(),
      marked: column(),
      refused: column(),
      wouldRefuse: column(),
    };
    const count = traffic.atUs.length;
    if (withDecisions === true) {
      this.#decisions = {
        outcome: new Uint8Array(count),
        limitIndex: new Uint16Array(count).fill(noLimit),
        limit: new Float64Array(count),
        remaining: new Float64Array(count),
        retryAfterUs: new Float64Array(count),
        resetAfterUs: new Float64Array(count),
        delayUs: new Float64Array(count),
        violated: new Uint32Array(count),
        otherItems: new Array<string>(count).fill(""),
      };
    }
    // Different requests may have the same values by what the key makes of them, and then share counters.
    const states = new Map<string, KeyState>();
    this.#keys = traffic.keys.map((key) => {
      const applied = appliedTo(policy, key);
      if (typeof applied === "string") return applied;
      let state = states.get(applied.counter);
      if (state === undefined) {
        state = {
          ...countersOf(applied.policy),
          queue: { waiting: new WaitingLine(), refusal: newMergedDecision(), nextAtMs: 0 },
        };
        states.set(applied.counter, state);
      }
      return state;
    });
  }

  finish(): Simulation {
    const { atUs, keyOf } = this.#traffic;
    for (let index = 0; index < atUs.length; index++) {
      const nowUs = Math.floor((atUs[index] as number) / stepUs) * stepUs;
      this.#events.runUntil(nowUs);
      this.#arrive(index, nowUs, this.#keys[keyOf[index] as number] as "ignored" | "denied" | KeyState);
    }
    this.#events.runUntil(Number.POSITIVE_INFINITY);
    const totals = {} as Record<Outcome, number>;
    outcomes.forEach((outcome, i) => {
      totals[outcome] = this.#counts[i] as number;
    });
    return {
      bins: this.#bins,
      totals,
      firstRefusal: this.#firstRefusal,
      refusedBy: this.#limits.map((limit, i) => ({ limit, requests: this.#refusedBy[i] as number })),
      longestDelayUs: this.#longestDelayUs,
      decisions: this.#decisions,
    };
  }

  #arrive(index: number, nowUs: number, state: "ignored" | "denied" | KeyState): undefined {
    if (!this.#isOn(nowUs) || state === "ignored") return this.#note(index, "ignored", undefined, 0);
    if (state === "denied") return this.#note(index, "denied", undefined, 0);
    const { mode, onLimit } = state.policy.policy;
    const cost = this.#costOf(index, state.policy);
    if (cost === undefined) return this.#note(index, mode === "shadow" ? "ignored" : "denied", undefined, 0);
    const merged = this.#merged;
    if (mode === "enforce" && onLimit.action === "delay") return this.#queueUp(index, nowUs, cost, state, onLimit);
    const isTold = this.#decisions !== undefined;
    const allowed = decide(state, nowUs, cost, merged, isTold);
    if (mode === "shadow") {
      if (allowed) this.#goOn(state, nowUs, 0);
      else this.#noteRefusal(index, state);
      return this.#note(index, allowed ? "admitted" : "would-refuse", merged, 0);
    }
    if (allowed) {
      this.#goOn(state, nowUs, merged.delayUs);
      return this.#note(index, merged.delayUs > 0 ? "delayed" : "admitted", merged, merged.delayUs);
    }
    this.#noteRefusal(index, state);
    const isMarked = onLimit.action === "tag" || (onLimit.action === "degrade" && onLimit.response === undefined);
    this.#note(index, isMarked ? "marked" : "refused", merged, 0);
  }

  /** The gateway asks the schedule again only when it may have changed. */
  #isOn(nowUs: number): boolean {
    const { schedule } = this.#policy;
    const nowSeconds = nowUs / 1_000_000;
    if (schedule !== undefined && nowSeconds >= this.#openUntilSeconds) {
      this.#isOpen = isOpen(schedule, nowSeconds);
      this.#openUntilSeconds = nextChangeSeconds(schedule, nowSeconds);
    }
    return this.#isOpen;
  }

  /** @returns undefined: the request states an invalid cost */
  #costOf(index: number, { policy }: CompiledPolicy): number | undefined {
    const { cost, costSource, deferred } = policy;
    const stated = this.#traffic.costs?.[index];
    if (costSource === undefined || deferred) return cost;
    if (stated === undefined || Number.isNaN(stated)) return costSource.default;
    if (costSource.from === "request-bytes" && stated === 0) return 1;
    return Number.isInteger(stated) && stated >= 1 && stated <= costSource.max ? stated : undefined;
  }

  /** What the request that was just charged does later: it holds slots, and its response is charged. */
  #goOn(state: KeyState, nowUs: number, delayUs: number): undefined {
    const { holdsSlots, deferred } = state.policy.policy;
    const { durationUs, responseBytes = 0 } = this.#options;
    // A gateway sleeps whole milliseconds, and never too few.
    const goesOnAtUs = nowUs + Math.ceil(delayUs / stepUs) * stepUs;
    const endUs = Math.floor((goesOnAtUs + durationUs) / stepUs) * stepUs;
    if (holdsSlots) {
      const held = slotsTaken(state);
      const everyUs = Math.min(...held.map(({ limit }) => limit.rate.windowUs)) / renewalsPerLife;
      for (let n = 1; nowUs + n * everyUs < endUs; n++) {
        this.#events.add(nowUs + n * everyUs, (atUs) => renew(held, Math.floor(atUs / stepUs) * stepUs));
      }
      this.#events.add(endUs, (atUs) => giveBack(held, atUs));
    }
    if (deferred && responseBytes > 0) this.#events.add(endUs, (atUs) => settle(state, atUs, responseBytes));
  }

  /** onLimit: delay. The request is charged now or when it is its turn, after those of its key that wait already. */
  #queueUp(index: number, nowUs: number, cost: number, state: KeyState, onLimit: Delay): undefined {
    const { queue } = state;
    const merged = this.#merged;
    const nowMs = nowUs / stepUs;
    if (queue.waiting.length > 0) {
      clearMerged(merged);
      mergeAll(merged, queue.refusal);
    } else {
      if (decide(state, nowUs, cost, merged, true)) return this.#leaveQueue(index, nowUs, nowUs, state, merged);
      noteRefusalOf(queue, merged, nowMs);
    }
    const untilMs = nowMs + onLimit.maxDelayUs / 1000;
    const turnAtMs = Math.max(queue.nextAtMs, nowMs) + queue.waiting.length * slowestMs(state.policy);
    const isFull = this.#waiting >= onLimit.maxWaiting;
    if (isFull || merged.decision.retryAfterUs === never || turnAtMs > untilMs) {
      this.#noteRefusal(index, state);
      return this.#note(index, "refused", merged, 0);
    }
    const waiting = { index, cost, sinceUs: nowUs, untilMs };
    queue.waiting.add(waiting);
    this.#waiting += 1;
    if (queue.waiting.length === 1) this.#turnAt(queue.nextAtMs, nowMs, waiting, state);
    else this.#events.add(Math.floor(untilMs) * stepUs, () => this.#giveUp(waiting, state));
  }

  #turnAt(atMs: number, nowMs: number, waiting: WaitingRequest, state: KeyState): undefined {
    this.#events.add(Math.max(atMs, nowMs + 1) * stepUs, (atUs) => this.#takeTurn(waiting, state, atUs));
  }

  #takeTurn(first: WaitingRequest, state: KeyState, nowUs: number): undefined {
    const { queue } = state;
    const merged = this.#merged;
    // Very many may have their turns at one moment.
    for (let waiting: WaitingRequest | undefined = first; waiting !== undefined; waiting = queue.waiting.first) {
      if (decide(state, nowUs, waiting.cost, merged, true)) {
        this.#leaveQueue(waiting.index, waiting.sinceUs, nowUs, state, merged);
      } else {
        noteRefusalOf(queue, merged, nowUs / stepUs);
        if (merged.decision.retryAfterUs !== never && queue.nextAtMs <= waiting.untilMs) {
          return this.#turnAt(queue.nextAtMs, nowUs / stepUs, waiting, state);
        }
        this.#noteRefusal(waiting.index, state);
        this.#note(waiting.index, "refused", merged, 0);
      }
      queue.waiting.remove(waiting);
      this.#waiting -= 1;
    }
  }

  /** It has waited as long as it may, and it was never its turn. */
  #giveUp(waiting: WaitingRequest, state: KeyState): undefined {
    const { queue } = state;
    if (queue.waiting.first === waiting || !queue.waiting.remove(waiting)) return;
    this.#waiting -= 1;
    this.#noteRefusal(waiting.index, state);
    this.#note(waiting.index, "refused", queue.refusal, 0);
  }

  #leaveQueue(index: number, sinceUs: number, nowUs: number, state: KeyState, merged: MergedDecision): undefined {
    const waitedUs = nowUs - sinceUs + merged.delayUs;
    this.#goOn(state, nowUs, merged.delayUs);
    this.#note(index, waitedUs > 0 ? "delayed" : "admitted", merged, waitedUs);
  }

  /** Called while the counters say which of them refused. */
  #noteRefusal(index: number, state: KeyState): undefined {
    const { policy, counters } = state;
    for (let i = 0; i < counters.length; i++) {
      if (counters[i]?.allowed !== false) continue;
      const place = this.#limits.indexOf((policy.limits[i] as CompiledLimit).name);
      this.#refusedBy[place] = (this.#refusedBy[place] as number) + 1;
    }
    // One that waits is refused later than others that came after it.
    const atUs = this.#traffic.atUs[index] as number;
    if (this.#firstRefusal !== undefined && this.#firstRefusal.atUs <= atUs) return;
    const limits = policy.limits.filter((_, i) => counters[i]?.allowed === false).map(({ name }) => name);
    this.#firstRefusal = { atUs, keyIndex: this.#traffic.keyOf[index] as number, limits };
  }

  /** @param merged undefined: nothing was decided */
  #note(index: number, outcome: Outcome, merged: MergedDecision | undefined, delayUs: number): undefined {
    const code = outcomes.indexOf(outcome);
    this.#counts[code] = (this.#counts[code] as number) + 1;
    if (delayUs > this.#longestDelayUs) this.#longestDelayUs = delayUs;
    this.#noteInBin(index, outcome);
    const decisions = this.#decisions;
    if (decisions === undefined) return;
    decisions.outcome[index] = code;
    if (merged === undefined) return;
    decisions.limitIndex[index] = this.#limits.indexOf(merged.limitName);
    const shown: Decision = merged.decision;
    decisions.limit[index] = shown.limit;
    decisions.remaining[index] = shown.remaining;
    decisions.retryAfterUs[index] = shown.retryAfterUs;
    decisions.resetAfterUs[index] = shown.resetAfterUs;
    decisions.delayUs[index] = delayUs;
    decisions.otherItems[index] = otherItems(merged, String);
    let violated = 0;
    const { limits } = merged.policy ?? this.#policy;
    for (const name of merged.violated) violated |= 1 << limits.findIndex((limit) => limit.name === name);
    decisions.violated[index] = violated;
  }

  #noteInBin(index: number, outcome: Outcome): undefined {
    const { fromUs, binUs, offered, admitted, delayed, marked, refused, wouldRefuse } = this.#bins;
    const bin = Math.floor(((this.#traffic.atUs[index] as number) - fromUs) / binUs);
    if (bin < 0 || bin >= offered.length) return;
    addOne(offered, bin);
    if (outcome === "refused" || outcome === "denied") return addOne(refused, bin);
    addOne(admitted, bin);
    if (outcome === "delayed") addOne(delayed, bin);
    else if (outcome === "marked") addOne(marked, bin);
    else if (outcome === "would-refuse") addOne(wouldRefuse, bin);
  }
}

function addOne(counts: Uint32Array, place: number): undefined {
  counts[place] = (counts[place] as number) + 1;
}

function noteRefusalOf(queue: Queue, merged: MergedDecision, nowMs: number): void {
  const { retryAfterUs } = merged.decision;
  clearMerged(queue.refusal);
  mergeAll(queue.refusal, merged);
  queue.nextAtMs = nowMs + (retryAfterUs > 0 ? Math.ceil(retryAfterUs / stepUs) : decideAgainMs);
}

/** How long the slowest limit needs to refill the units of one request, in ms. Of concurrency, this is not known. */
function slowestMs({ policy, limits }: CompiledPolicy): number {
  let ms = 0;
  for (const { rate } of limits) {
    if (rate.algorithm !== "concurrency") ms = Math.max(ms, (policy.cost * rate.windowUs) / rate.quota / stepUs);
  }
  return ms;
}
