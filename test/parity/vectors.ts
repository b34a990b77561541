// The vectors: what every runtime must do alike, in JSON that people and Lua can read. The README.md there explains the
// fields.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { lifetimeWindowUs } from "../../limiter/src/algorithms/fixed-window.ts";
import type { Algorithm, CalendarUnit, Limit } from "../../limiter/src/algorithms/limit.ts";
import { parseDuration } from "../../limiter/src/document/duration.ts";
import type { ZoneTransition } from "../../limiter/src/document/schedule.ts";
import type { KeyPart } from "../../limiter/src/key/key-part.ts";
import { algorithms, ask, edit, numbersReported, refund, renew } from "./trace.ts";

export interface VectorLimit {
  readonly algorithm: Algorithm;
  readonly quota: number;
  readonly window?: string;
  readonly burst?: number;
  readonly precision?: string;
  readonly ttl?: string;
  readonly initial?: number;
  readonly warmUp?: string;
}

/** What is reported of one limit, and what is stored of it afterwards. */
export interface Reported {
  readonly allowed?: boolean;
  readonly remaining?: number;
  readonly retryAfterUs?: number;
  readonly resetAfterUs?: number;
  readonly delayUs?: number;
  readonly state: readonly [atUs: number, count: number];
  readonly entries?: readonly (readonly [beganUs: number, units: number])[];
}

export interface Step extends Partial<Reported> {
  readonly note?: string;
  readonly limit?: VectorLimit;
  readonly afterUs?: number;
  readonly cost?: number;
  /** Refunds what the step with this number took; the first is 1. */
  readonly refund?: number;
  readonly renew?: number;
  readonly heldAtUs?: number;
  /** In a group, one for each limit. */
  readonly each?: readonly Reported[];
}

export interface Vector {
  readonly name: string;
  readonly limit?: VectorLimit;
  /** Limits that are charged together. */
  readonly limits?: readonly VectorLimit[];
  readonly startUs: number;
  readonly steps: readonly Step[];
}

export interface ExpectedProblem {
  readonly path: string;
  readonly expected: string;
  readonly got: string;
}

export const vectorFiles = [
  "shaped-bucket",
  "token-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
  "leaky-bucket",
  "concurrency",
  "groups",
] as const;

interface VectorFiles extends Record<(typeof vectorFiles)[number], { vectors: Vector[] }> {
  durations: { valid: { text: string; us: number }[]; invalid: string[] };
  "key-parts": { valid: { text: string; part: KeyPart }[]; invalid: string[] };
  "form-types": Record<"forms" | "inAscii" | "others" | "ambiguous", { type?: string; encoding?: string }[]>;
  "ip-prefixes": { cases: { address: string; v4Bits: number; v6Bits: number; network: string }[] };
  cidrs: {
    valid: { text: string; network: string }[];
    invalid: string[];
    addresses: { network: string; within?: string[]; without?: string[] }[];
  };
  "calendar-windows": {
    cases: {
      note: string;
      unit: CalendarUnit;
      anchor: number;
      transitions: ZoneTransition[];
      at: string;
      /** When the window before began, when the present one begins and ends, and when the next one ends. */
      moments: string[];
    }[];
  };
  "counter-keys": {
    cases: {
      app: string;
      policy: string;
      limit: Omit<VectorLimit, "quota"> & { name: string };
      values: string[];
      key: string;
    }[];
  };
  "policy-documents": {
    valid: { name: string; document: unknown; policy: unknown }[];
    invalid: { fault: string; document: unknown; problems: ExpectedProblem[] }[];
  };
  "policy-matching": {
    policies: { app: string; document: unknown }[];
    requests: {
      host: string;
      path: string;
      method: string;
      headers?: Record<string, string>;
      policies: string[];
    }[];
  };
  "path-regexes": { cases: { regex: string; matches: string[]; others: string[] }[] };
}

export function readVectors<Name extends keyof VectorFiles>(name: Name): VectorFiles[Name] {
  return JSON.parse(readFileSync(join(import.meta.dirname, "../vectors", `${name}.json`), "utf8"));
}

export function limitOf(
  { algorithm, quota, window, burst, precision, ttl, initial, warmUp }: VectorLimit,
  name = "default",
): Limit {
  const windowUs = window === "lifetime" ? lifetimeWindowUs : (parseDuration((window ?? ttl) as string) as number);
  const precisionUs = precision === undefined ? windowUs / 10 : (parseDuration(precision) as number);
  return {
    name,
    algorithm,
    quota,
    windowUs,
    burst: burst ?? quota,
    precisionUs: algorithm === "sliding-window" ? precisionUs : 0,
    ...(initial === undefined ? {} : { initial }),
    ...(warmUp === undefined ? {} : { warmUpUs: parseDuration(warmUp) as number }),
  };
}

/** @returns the vector as a trace; an edit and the request after it are two events */
export function traceOf({ limit, limits = [limit as VectorLimit], startUs, steps }: Vector): number[] {
  const trace = [startUs, limits.length];
  for (const one of limits) {
    const { algorithm, quota, windowUs, burst, precisionUs, initial, warmUpUs } = limitOf(one);
    const counting = initial === undefined && warmUpUs === undefined ? algorithm : "shaped-bucket";
    trace.push(algorithms.indexOf(counting), quota, windowUs, precisionUs === 0 ? burst : precisionUs);
    trace.push(initial ?? burst, warmUpUs ?? 0);
  }
  const asksSince = (step: number, at: number) => steps.slice(step - 1, at).filter(isAsk).length;
  for (const [at, step] of steps.entries()) {
    const { afterUs = 0, cost = 1 } = step;
    if (step.limit !== undefined) {
      const { quota, burst } = limitOf(step.limit);
      trace.push(edit, 0, quota, burst);
    }
    if (step.refund !== undefined) trace.push(refund, afterUs, asksSince(step.refund, at), 0);
    else if (step.renew !== undefined) trace.push(renew, afterUs, asksSince(step.renew, at), 0);
    else trace.push(ask, afterUs, cost, 0);
  }
  return trace;
}

/** @returns what a vector's steps expect, in the form that `reportedOf` gives to a runtime's answers */
export function expectationsOf({ limit, limits = [limit as VectorLimit], steps }: Vector): object[] {
  return steps.map((step, at) => {
    const each = step.each ?? [step as Reported];
    if (each.length !== limits.length) throw new Error(`step ${at + 1}: expected ${limits.length} limits`);
    const stored = each.map(({ state, entries = [] }) => ({ state, entries }));
    if (step.refund !== undefined) return { step: at + 1, stored };
    if (step.renew !== undefined) return { step: at + 1, heldAtUs: step.heldAtUs, stored };
    const reportedNumbers = each.map(({ allowed, remaining, retryAfterUs = 0, resetAfterUs, delayUs = 0 }) => {
      return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
    });
    return { step: at + 1, allowed: step.allowed, reportedNumbers, stored };
  });
}

/** @param reported what the runtime answered to the vector's trace */
export function reportedOf({ limits, steps }: Vector, reported: readonly (readonly number[])[]): object[] {
  const count = limits?.length ?? 1;
  const answers = [...reported];
  return steps.map((step, at) => {
    if (step.limit !== undefined) answers.shift();
    const numbers = [...(answers.shift() ?? [])];
    const about = isAsk(step)
      ? {
          allowed: numbers.shift() === 1,
          reportedNumbers: Array.from({ length: count }, () => {
            const [allowed, remaining, retryAfterUs, resetAfterUs, delayUs] = numbers.splice(0, numbersReported);
            return { allowed: allowed === 1, remaining, retryAfterUs, resetAfterUs, delayUs };
          }),
        }
      : step.renew !== undefined
        ? { heldAtUs: numbers.shift() }
        : {};
    const stored = Array.from({ length: count }, () => {
      const [atUs, units, ...rest] = numbers.splice(0, 1 + (numbers[0] as number)).slice(1);
      const entries = Array.from({ length: rest.length / 2 }, (_, i) => rest.slice(2 * i, 2 * i + 2));
      return { state: [atUs, units], entries };
    });
    return { step: at + 1, ...about, stored };
  });
}

function isAsk({ refund: refunded, renew: renewed }: Step): boolean {
  return refunded === undefined && renewed === undefined;
}
