// A fault as the runner sees it, and the observations that it must return.

import type { Fact } from "../fixtures/measures/fact.ts";

/** What happened in a tenth of a second. */
export interface Window {
  /** Milliseconds since the fault began. */
  readonly atMs: number;
  readonly sent: number;
  /** Admitted by Redis; the next field: by a node's share without Redis. */
  readonly admitted: number;
  readonly admittedByShare: number;
  readonly refused: number;
  /** Answers 5xx, and requests without an answer. */
  readonly failed: number;
  readonly p99Ms: number;
}

export interface Observation {
  readonly facts: readonly Fact[];
  /** Time from the fault's end until everything is as before. Undefined if nothing had to recover, or nothing did. */
  readonly recoveredAfterMs: number | undefined;
  readonly windows: readonly Window[];
}

export interface Fault {
  /** The number in README.md's list of faults. */
  readonly number: number;
  readonly name: string;
  /** True for faults that use network namespaces, which only root may make. */
  readonly needsRoot?: boolean;
  /** @param stack gets a callback for everything that the fault starts, to end it */
  run(stack: AsyncDisposableStack): Promise<Observation>;
}
