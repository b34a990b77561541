// A policy as the rest of Sluice works with it: what the document says, with its defaults filled in and its durations
// in µs. `validatePolicy` is the only maker.

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
  /** Higher is evaluated first; ties go by name. */
  readonly priority: number;
  readonly match: Match;
  /** What picks the counter; empty: one shared counter. */
  readonly key: readonly KeyPart[];
  readonly onMissingKey: OnMissingKey;
  readonly limits: readonly Limit[];
  /** Units that one request takes; with a `costSource`, one that does not say. */
  readonly cost: number;
  /** Undefined: every request costs the same. */
  readonly costSource: CostSource | undefined;
  readonly scope: Scope;
  /** Of scope cluster. Absent: exact. */
  readonly consistency?: Consistency;
  readonly onStoreFailure: OnStoreFailure;
  /** Of scope cluster: longest that a request waits for Redis. Absent: as long as the deployment says. */
  readonly maxStoreWaitUs?: number;
  readonly onLimit: OnLimit;
  /** The first whose key matches holds instead. Undefined: none. */
  readonly overrides: readonly Override[] | undefined;
  /** Undefined: nobody. */
  readonly exempt: Exempt | undefined;
  /** When it is on. Undefined: always. */
  readonly schedule: Schedule | undefined;
}

/** Whom a policy does not count. */
export interface Exempt {
  readonly cidrs: readonly string[];
  /** Each a pattern for each part of the policy's key. */
  readonly keys: readonly (readonly string[])[];
}

/** What holds for particular key values. */
export interface Override {
  /** A pattern for each part of the policy's key. */
  readonly key: readonly string[];
  /** As many as the policy's and of the same names: those that it does not name are the policy's own. */
  readonly limits: readonly Limit[];
  readonly mode: Mode;
}

/** An empty list, and no headers, match everything. */
export interface Match {
  readonly hosts: readonly string[];
  readonly paths: readonly string[];
  readonly methods: readonly string[];
  /** Values by name, in lower case. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
}
