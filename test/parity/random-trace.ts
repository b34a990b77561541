// Random traces: a limit, requests that press against it, a clock that steps both ways. The same seed is the same trace.

import { type CounterState, emptyState } from "../../limiter/src/algorithms/counter-state.ts";
import { charge, describe, rateOf, refund } from "../../limiter/src/algorithms/rate.ts";
import { emptyDecision } from "../../limiter/src/decision.ts";
import type { Algorithm, Limit } from "../../limiter/src/policy/policy.ts";

/**
 * `limit` begins a new counter, `edit` changes its limit, `ask` and `refund` are answered.
 * Written a line each, as play-trace.lua reads them.
 */
export type Event =
  | { readonly kind: "limit"; readonly limit: Limit }
  | { readonly kind: "edit"; readonly limit: Limit }
  | { readonly kind: "ask"; readonly nowUs: number; readonly cost: number }
  | { readonly kind: "refund"; readonly cost: number };

const decisionsPerCounter = 250;
const maxUnits = 2 ** 31;
const longestWindowMs = 366 * 86_400_000;

export function randomTrace(algorithm: Algorithm, seed: number, decisions: number, refunds: boolean): Event[] {
  const random = generator(seed);
  const events: Event[] = [];
  for (let counters = 0; counters * decisionsPerCounter < decisions; counters++) {
    let limit = randomLimit(random, algorithm);
    events.push({ kind: "limit", limit });
    let nowUs = 1_500_000_000_000_000 + Math.floor(random() * 5e14);
    for (let i = 0; i < decisionsPerCounter; i++) {
      if (random() < 0.01) {
        limit = { ...randomLimit(random, algorithm), windowUs: limit.windowUs };
        events.push({ kind: "edit", limit });
      }
      const cost = randomCost(random, limit.burst);
      nowUs = Math.max(0, nowUs + randomStep(random, limit, cost));
      events.push({ kind: "ask", nowUs, cost });
      if (refunds && random() < 0.05) events.push({ kind: "refund", cost: randomCost(random, limit.burst) });
    }
  }
  return events;
}

export function traceLines(events: readonly Event[]): string {
  let text = "";
  for (const event of events) {
    if (event.kind === "ask") text += `ask ${event.nowUs} ${event.cost}\n`;
    else if (event.kind === "refund") text += `refund ${event.cost}\n`;
    else {
      const { algorithm, quota, windowUs, burst } = event.limit;
      text += `${event.kind} ${algorithm} ${quota} ${windowUs} ${burst}\n`;
    }
  }
  return text;
}

/** What Node answers: a line for each `ask` and `refund`, with every field of the decision and the state. */
export function answersOfNode(events: readonly Event[]): string[] {
  const answers: string[] = [];
  const decision = emptyDecision();
  let state: CounterState = emptyState();
  let rate = rateOf({ name: "x", algorithm: "fixed-window", quota: 1, windowUs: 1_000, burst: 1 });
  for (const event of events) {
    if (event.kind === "limit") state = emptyState();
    if (event.kind === "limit" || event.kind === "edit") {
      rate = rateOf(event.limit);
    } else if (event.kind === "refund") {
      refund(rate, state, event.cost);
      answers.push(`refund ${whole(state.atUs)} ${whole(state.count)}`);
    } else {
      const allowed = charge(rate, state, event.nowUs, event.cost);
      describe(rate, state, event.nowUs, event.cost, allowed, decision);
      const { remaining, retryAfterUs, resetAfterUs } = decision;
      const numbers = [remaining, retryAfterUs, resetAfterUs, state.atUs, state.count].map(whole).join(" ");
      answers.push(`${decision.allowed ? "allowed" : "refused"} ${numbers}`);
    }
  }
  return answers;
}

/** Every digit, as Lua's %.0f writes them. */
function whole(value: number): string {
  return BigInt(value).toString();
}

function randomLimit(random: () => number, algorithm: Algorithm): Limit {
  const quota = magnitude(random, maxUnits);
  const burst = algorithm === "token-bucket" ? magnitude(random, maxUnits) : quota;
  return { name: "x", algorithm, quota, windowUs: magnitude(random, longestWindowMs) * 1_000, burst };
}

/** Of every order of magnitude alike, the borders often. */
function magnitude(random: () => number, max: number): number {
  if (random() < 0.1) return max;
  return Math.min(max, Math.floor(2 ** (random() * Math.log2(max) + random())));
}

function randomCost(random: () => number, burst: number): number {
  const choice = random();
  if (choice < 0.4) return 1;
  if (choice < 0.45) return Math.min(burst + 1, maxUnits);
  if (choice < 0.55) return burst;
  return magnitude(random, burst);
}

/** Mostly about what the cost takes to refill; sometimes nothing, sometimes back, sometimes far. */
function randomStep(random: () => number, { quota, windowUs }: Limit, cost: number): number {
  const unitsUs = Math.min((cost / quota) * windowUs, 1e13);
  const choice = random();
  if (choice < 0.3) return 0;
  if (choice < 0.6) return Math.floor(random() * 1.5 * unitsUs);
  if (choice < 0.7) return Math.floor(random() * 5);
  if (choice < 0.8) return Math.floor(random() * windowUs);
  if (choice < 0.85) return -Math.floor(random() * 5_000);
  if (choice < 0.9) return -Math.floor(random() * 3 * windowUs);
  if (choice < 0.92) return -3_600_000_000;
  if (choice < 0.94) return 3_600_000_000;
  return windowUs;
}

/** mulberry32 */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
