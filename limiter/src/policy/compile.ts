// From a validated policy to what a request needs of it, so that nothing is parsed, joined or looked up twice.

import { type Rate, rateOf } from "../algorithms/rate.ts";
import { counterPrefix, counterSuffix } from "../key/counter-key.ts";
import { type PathPattern, pathPattern } from "../match/path-pattern.ts";
import { rateLimitPolicyItem } from "../response-headers.ts";
import type { Policy } from "./policy.ts";
import { emptyTable } from "./table.ts";

export interface CompiledPolicy {
  readonly app: string;
  readonly policy: Policy;
  readonly limits: readonly CompiledLimit[];
  readonly counterPrefix: string;
  /** Whether a limit is of concurrency: what it charges is given back when the request ends. */
  readonly holdsSlots: boolean;
  /** Value of the `RateLimit-Policy` header. */
  readonly policyHeader: string;
  /** Empty: every path. */
  readonly paths: readonly PathPattern[];
  /** Undefined: every method. */
  readonly methods: Readonly<Record<string, boolean>> | undefined;
  /** Whether it is enforced on the node, for every request that is looked at: decided without further questions. */
  readonly plain: boolean;
  /** What was decided since the decisions were last counted. */
  readonly tally: Tally;
}

/** Decisions by result. A policy's own numbers, so that counting looks nothing up. */
export interface Tally {
  allowed: number;
  refused: number;
  "shadow-refused": number;
  degraded: number;
  /** Whether it is among those that wait to be counted. */
  pending: boolean;
}

export function emptyTally(): Tally {
  return { allowed: 0, refused: 0, "shadow-refused": 0, degraded: 0, pending: false };
}

export interface CompiledLimit {
  readonly name: string;
  readonly rate: Rate;
  readonly counterSuffix: string;
  /** Names the counters of the limit among those of all limits: the prefix and the suffix of their keys. */
  readonly counterFamily: string;
  /** What a store's own keys of these counters begin with: the store's to set, once. */
  cellPrefix?: string;
}

export function compilePolicy(app: string, policy: Policy): CompiledPolicy {
  const prefix = counterPrefix(app, policy.name);
  const limits: CompiledLimit[] = [];
  const items: string[] = [];
  for (const limit of policy.limits) {
    const rate = rateOf(limit);
    const suffix = counterSuffix(limit);
    limits.push({ name: limit.name, rate, counterSuffix: suffix, counterFamily: prefix + suffix });
    items.push(rateLimitPolicyItem(limit.name, rate));
  }
  const paths: PathPattern[] = [];
  for (const path of policy.match.paths) paths.push(pathPattern(path));
  let methods: Record<string, boolean> | undefined;
  if (policy.match.methods.length > 0) {
    methods = emptyTable<boolean>();
    for (const method of policy.match.methods) methods[method] = true;
  }
  return {
    app,
    policy,
    limits,
    counterPrefix: prefix,
    holdsSlots: policy.limits.some(({ algorithm }) => algorithm === "concurrency"),
    policyHeader: items.join(", "),
    paths,
    methods,
    plain:
      policy.mode === "enforce" &&
      policy.scope === "node" &&
      policy.onLimit.action === "reject" &&
      paths.length === 0 &&
      methods === undefined,
    tally: emptyTally(),
  };
}
