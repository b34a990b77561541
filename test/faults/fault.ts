// What a fault is to the runner, and what it has to show.

import type { Fact } from "../fixtures/fact.ts";

/** What happened in a tenth of a second. */
export interface Window {
  /** Since the fault began. */
  readonly atMs: number;
  readonly sent: number;
  /** By Redis, and by a node's share without it. */
  readonly admitted: number;
  readonly admittedByShare: number;
  readonly refused: number;
  /** 5xx, and requests without an answer. */
  readonly failed: number;
  readonly p99Ms: number;
}

export interface Observation {
  readonly facts: readonly Fact[];
  /** From the fault's end until all is as before. Undefined where nothing had to recover, or nothing did. */
  readonly recoveredAfterMs: number | undefined;
  readonly windows: readonly Window[];
}

export interface Fault {
  /** As the list of faults in README.md has it. */
  readonly number: number;
  readonly name: string;
  /** Network namespaces are root's. */
  readonly needsRoot?: boolean;
  /** @param stack is told how to end what the fault starts */
  run(stack: AsyncDisposableStack): Promise<Observation>;
}
