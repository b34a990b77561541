// Compares what a fleet admitted with its limit, and with what one exact counter admits of the same requests.

import { rateOf } from "../../limiter/src/algorithms/rate.ts";
import type { Served } from "../fixtures/clients/load.ts";
import { type Admission, mostAtOnce, mostWithin, takenPerWindow } from "../fixtures/measures/bound.ts";
import { atLeast, atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import { byRedisClock, type RedisClock } from "../fixtures/servers/redis-clock.ts";
import { Counter } from "../limiter/algorithms/counter.ts";
import { seeded } from "../limiter/lease/lease-world.ts";
import { type Measured, perSecond } from "./policies.ts";

export interface Account {
  readonly facts: readonly Fact[];
  readonly sent: number;
  readonly admitted: number;
  /** What one exact counter would admit of the same requests. */
  readonly wouldBeAdmitted: number;
  readonly excess: number;
  readonly unusedPercent: number;
  /** Unused share while all gateways got the same load; the next field: while they did not. */
  readonly unusedEvenlyPercent: number;
  readonly unusedUnevenlyPercent: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Admitted requests by second of the run. */
  readonly admittedPerSecond: readonly number[];
}

export interface Span {
  readonly fromMs: number;
  /** When the load ceased to be the same at all gateways. */
  readonly unevenFromMs: number;
  readonly toMs: number;
}

interface OneCounter {
  evenly: number;
  unevenly: number;
}

const mostUnusedPercent = 2;
/** How many random moments between sending and answer the one counter is tried at. */
const momentsBetween = 30;
/** The least load as a multiple of the limit. Three is intended, and a machine with other work sends a little less. */
const leastOffered = 2.5;

export function accountOf(
  measured: Measured,
  served: readonly Served[],
  clock: RedisClock,
  { fromMs, unevenFromMs, toMs }: Span,
): Account {
  const ordered = served.toSorted((a, b) => a.sentAtMs - b.sentAtMs);
  const admitted = ordered.filter(({ status }) => status === 200);
  const most = mostOf(
    measured,
    admitted.map((one) => byRedisClock(one, clock)),
  );
  const exact = leastOfOneCounter(measured, ordered, clock, unevenFromMs);
  const isEven = ({ sentAtMs }: Served) => sentAtMs < unevenFromMs;
  const evenly = admitted.filter(isEven).length;
  const unevenly = admitted.length - evenly;
  const failed = ordered.filter(({ status }) => status !== 200 && status !== 429).length;
  const unused = Math.max(0, exact.evenly + exact.unevenly - admitted.length);
  const unusedEvenlyPercent = percentOf(exact.evenly - evenly, exact.evenly);
  const unusedUnevenlyPercent = percentOf(exact.unevenly - unevenly, exact.unevenly);
  const offered = ordered.length / (((toMs - fromMs) / 1000) * perSecond(measured));
  const facts: Fact[] = [
    atLeast("offered, times the limit", leastOffered, offered),
    ...most.facts,
    fact("answers other than 200 and 429", "0", `${failed}`, failed === 0),
    ...(measured.consistency === "exact"
      ? [atMost("unused, units", doubtfulUnits(measured, ordered), unused)]
      : [
          atMost("unused, all gateways asked alike", mostUnusedPercent, unusedEvenlyPercent, " %"),
          atMost("unused, gateways asked unevenly", mostUnusedPercent, unusedUnevenlyPercent, " %"),
        ]),
  ];
  const took = ordered.map(({ sentAtMs, answeredAtMs }) => answeredAtMs - sentAtMs).sort((a, b) => a - b);
  return {
    facts,
    sent: ordered.length,
    admitted: admitted.length,
    wouldBeAdmitted: exact.evenly + exact.unevenly,
    excess: most.excess,
    unusedPercent: percentOf(unused, exact.evenly + exact.unevenly),
    unusedEvenlyPercent,
    unusedUnevenlyPercent,
    p50Ms: took[took.length >> 1] ?? 0,
    p99Ms: took[Math.floor(took.length * 0.99)] ?? 0,
    admittedPerSecond: countsPerSecond(admitted, ordered[0]?.sentAtMs ?? 0),
  };
}

/** @param admissions by Redis' clock @returns the most that was certainly admitted at once, or in a window */
function mostOf(
  { limit: { algorithm, quota, windowUs, burst }, consistency }: Measured,
  admissions: readonly Admission[],
): { facts: readonly Fact[]; excess: number } {
  const windowMs = windowUs / 1000;
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    // One request departs while as many as the burst wait.
    const holds = algorithm === "token-bucket" ? burst : burst + 1;
    const most = mostAtOnce(admissions, (quota * 1000) / windowMs);
    return {
      facts: [atMost(`most in any interval t beyond ${(quota * 1000) / windowMs}/s · t`, holds, most)],
      excess: Math.max(0, most - holds),
    };
  }
  if (algorithm !== "fixed-window") {
    const most = mostWithin(admissions, windowMs);
    return {
      facts: [atMost(`most in any ${windowMs / 1000} s`, quota, most)],
      excess: Math.max(0, most - quota),
    };
  }
  const taken = [...takenPerWindow(admissions, windowMs, quota).values()];
  const most = Math.max(...taken);
  const facts = [atMost(`most of ${taken.length} windows`, quota, most)];
  if (consistency === "exact") {
    const least = Math.min(...taken);
    facts.push(fact(`least of ${taken.length} windows`, `${quota}`, `${least}`, least >= quota));
  }
  return { facts, excess: Math.max(0, most - quota) };
}

/**
 * Computes what one exact counter admits of the same requests. It would have decided each between its sending and its answer,
 * so it is tried at both moments, and for an exact policy at many between them. @returns the least that it admits
 */
function leastOfOneCounter(
  { limit, consistency }: Measured,
  served: readonly Served[],
  { aheadMs }: RedisClock,
  unevenFromMs: number,
): OneCounter {
  const below = seeded(1);
  const between = () => below(1000) / 1000;
  const moments = [
    () => 0,
    () => 1,
    ...Array.from({ length: consistency === "exact" ? momentsBetween : 0 }, () => between),
  ];
  const admitted = moments.map((moment) => {
    const counter = new Counter(rateOf(limit));
    const asked = served.map((one) => ({
      one,
      atMs: one.sentAtMs + (one.answeredAtMs - one.sentAtMs) * moment(),
    }));
    const by: OneCounter = { evenly: 0, unevenly: 0 };
    for (const { one, atMs } of asked.sort((a, b) => a.atMs - b.atMs)) {
      if (!counter.allows(Math.floor((atMs + aheadMs) * 1000))) continue;
      by[one.sentAtMs < unevenFromMs ? "evenly" : "unevenly"] += 1;
    }
    return by;
  });
  return admitted.reduce((least, by) => (by.evenly + by.unevenly < least.evenly + least.unevenly ? by : least));
}

/** @returns what a bucket refills while the first and the last request are between sending and answer, and one unit begun */
function doubtfulUnits(measured: Measured, served: readonly Served[]): number {
  const { algorithm } = measured.limit;
  if (algorithm !== "token-bucket" && algorithm !== "leaky-bucket") return 0;
  const tookMs = (one: Served | undefined) => (one === undefined ? 0 : one.answeredAtMs - one.sentAtMs);
  return 1 + Math.ceil(((tookMs(served[0]) + tookMs(served.at(-1))) / 1000) * perSecond(measured));
}

function percentOf(part: number, whole: number): number {
  return whole === 0 ? 0 : (Math.max(0, part) / whole) * 100;
}

function countsPerSecond(admitted: readonly Served[], fromMs: number): number[] {
  const counts: number[] = [];
  for (const { sentAtMs } of admitted) {
    const second = Math.floor((sentAtMs - fromMs) / 1000);
    counts[second] = (counts[second] ?? 0) + 1;
  }
  return Array.from(counts, (count) => count ?? 0);
}
