// What a fault is to the runner, and what it has to show.

export interface Fact {
  readonly what: string;
  readonly expected: string;
  readonly seen: string;
  readonly ok: boolean;
}

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

export function fact(what: string, expected: string, seen: string, ok: boolean): Fact {
  return { what, expected, seen, ok };
}

/** At most so many. */
export function atMost(what: string, most: number, seen: number, unit = ""): Fact {
  return fact(what, `≤ ${figure(most)}${unit}`, `${figure(seen)}${unit}`, seen <= most);
}

export function atLeast(what: string, least: number, seen: number, unit = ""): Fact {
  return fact(what, `≥ ${figure(least)}${unit}`, `${figure(seen)}${unit}`, seen >= least);
}

export function figure(number: number): string {
  return Number.isInteger(number) ? `${number}` : number.toFixed(1);
}
