// The vectors: what every runtime must do alike, in JSON that people can read and Lua can too. README.md there tells
// what the fields mean.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { KeyPart } from "../../limiter/src/key/key-part.ts";
import { parseDuration } from "../../limiter/src/policy/duration.ts";
import type { Algorithm, Limit } from "../../limiter/src/policy/policy.ts";

export interface VectorLimit {
  readonly algorithm: Algorithm;
  readonly quota: number;
  readonly window: string;
  readonly burst?: number;
}

export interface Step {
  /** Why the step is there. */
  readonly note?: string;
  /** The limit is edited before this step. */
  readonly limit?: VectorLimit;
  /** Since the step before, or since `startUs`; negative for a clock that steps back. Absent: 0. */
  readonly afterUs?: number;
  /** Absent: 1. */
  readonly cost?: number;
  readonly allowed: boolean;
  readonly remaining: number;
  /** Absent: 0. */
  readonly retryAfterUs?: number;
  readonly resetAfterUs: number;
  readonly state: readonly [atUs: number, count: number];
}

export interface Vector {
  readonly name: string;
  readonly limit: VectorLimit;
  readonly startUs: number;
  readonly steps: readonly Step[];
}

export interface ExpectedProblem {
  readonly path: string;
  readonly expected: string;
  readonly got: string;
}

interface VectorFiles {
  "token-bucket": { vectors: Vector[] };
  "fixed-window": { vectors: Vector[] };
  durations: { valid: { text: string; us: number }[]; invalid: string[] };
  "key-parts": { valid: { text: string; part: KeyPart }[]; invalid: string[] };
  "ip-prefixes": { cases: { address: string; v4Bits: number; v6Bits: number; network: string }[] };
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
    requests: { host: string; path: string; method: string; policies: string[] }[];
  };
}

export function readVectors<Name extends keyof VectorFiles>(name: Name): VectorFiles[Name] {
  return JSON.parse(readFileSync(join(import.meta.dirname, "../vectors", `${name}.json`), "utf8"));
}

export function limitOf({ algorithm, quota, window, burst }: VectorLimit, name = "default"): Limit {
  return { name, algorithm, quota, windowUs: parseDuration(window) as number, burst: burst ?? quota };
}
