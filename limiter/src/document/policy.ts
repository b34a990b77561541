// A policy as the rest of Sluice uses it: the content of the document, with defaults filled in and durations in µs. Only
// `validatePolicy` makes policies.

import type { Limit } from "../algorithms/limit.ts";
import type { KeyPart } from "../key/key-part.ts";
import type { CostSource } from "./cost.ts";
import type { OnLimit } from "./on-limit.ts";
import type { Schedule } from "./schedule.ts";

export type Mode = "enforce" | "shadow" | "off";
export type Scope = "node" | "cluster";
export type Consistency = "exact" | "leased";
export type OnMissingKey = "skip" | "deny" | "shared";
export type OnStoreFailure = "local" | "allow" | "deny";

export interface Policy {
  readonly name: string;
  readonly description: string;
  readonly mode: Mode;
  /** A policy of higher priority is evaluated first; ties go by name. */
  readonly priority: number;
  readonly match: Match;
  /** The request attributes that select the counter; empty: one shared counter. */
  readonly key: readonly KeyPart[];
  readonly onMissingKey: OnMissingKey;
  /** With plans: those of the default plan. */
  readonly limits: readonly Limit[];
  /** Absent: all requests have the same limits. */
  readonly plans?: Plans;
  /** Units that one request takes; with a `costSource`, units of a request that states no cost. */
  readonly cost: number;
  /** Undefined: every request costs the same. */
  readonly costSource: CostSource | undefined;
  readonly scope: Scope;
  /** Only for scope cluster. Absent: exact. */
  readonly consistency?: Consistency;
  readonly onStoreFailure: OnStoreFailure;
  /**
   * Only for scope cluster: the longest that a request waits for Redis. Absent: as long as the deployment is configured to wait.
   */
  readonly maxStoreWaitUs?: number;
  readonly onLimit: OnLimit;
  /** Other apps whose callers may check and charge it. Absent: none. */
  readonly sharedWith?: readonly string[];
  /** The first override whose key matches applies instead. Undefined: none. */
  readonly overrides: readonly Override[] | undefined;
  /** Undefined: nobody. */
  readonly exempt: Exempt | undefined;
  /** When the policy is on. Undefined: always. */
  readonly schedule: Schedule | undefined;
}

/** Limits by what a client has bought. */
export interface Plans {
  /** The attribute of a request that names its plan. Undefined: the first value of the key names a consumer, who has a plan. */
  readonly by: KeyPart | undefined;
  /** The plan of requests whose attribute is absent, empty, read differently by servers, or names no plan. */
  readonly default: string;
  /** By the plan's name; the default plan is among them. */
  readonly limits: Readonly<Record<string, readonly Limit[]>>;
}

/** The clients and key values that a policy does not count. */
export interface Exempt {
  readonly cidrs: readonly string[];
  /** Each has a pattern for each part of the policy's key. */
  readonly keys: readonly (readonly string[])[];
}

/** What applies instead for particular key values. */
export interface Override {
  /** A pattern for each part of the policy's key. */
  readonly key: readonly string[];
  /** These are as many as the policy's, with the same names. Limits that the document does not override are the policy's own. */
  readonly limits: readonly Limit[];
  readonly mode: Mode;
}

/** An empty list, and an empty set of headers, match everything. */
export interface Match {
  readonly hosts: readonly string[];
  readonly paths: readonly string[];
  readonly methods: readonly string[];
  /** Values by name, in lower case. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
}
