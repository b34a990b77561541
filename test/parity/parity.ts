// Plays the same random traces in Node and in every other runtime, and compares what each decided. A difference is shrunk to
// the shortest trace that shows it.

import { availableParallelism } from "node:os";
import type { Build } from "./build.ts";
import { InNode, type Runtime, type RuntimeName, runtimeNames, type Share, startRuntime } from "./runtimes.ts";
import { type Difference, firstDifference, shortestDifference } from "./shrink.ts";
import { algorithms, mixed, randomTrace } from "./trace.ts";

export interface ParityOptions {
  readonly seed: number;
  /** Decisions of each algorithm in each runtime, and a quarter as many of groups, where each counter of a group counts. */
  readonly decisions: number;
  readonly runtimes: readonly RuntimeName[];
  readonly families: readonly number[];
}

export interface Pair {
  readonly runtime: string;
  /** Decisions that were compared with Node's. */
  decisions: number;
  /** Counters, or groups of them, with any difference. */
  differences: number;
  /** The time that its processes took, side by side with others. */
  seconds: number;
}

export interface Parity {
  readonly pairs: readonly Pair[];
  /** For each family that was played, the part of all asks that was allowed. */
  readonly allowed: Readonly<Record<string, number>>;
  readonly seconds: number;
  /** The first difference of each runtime, shrunk to the shortest trace. */
  readonly reports: readonly string[];
}

export const asksPerCounter = 250;
/** A group has three counters on average. */
const groupSize = 3;
const countersPerShare = 500;

export const everything: ParityOptions = {
  seed: 20_231_114,
  decisions: 1_000_000,
  runtimes: runtimeNames,
  families: [0, 1, 2, 3, 4, 5, 6, 7, mixed],
};

export function familyName(family: number): string {
  return algorithms[family] ?? "groups";
}

export async function compare(options: ParityOptions, built: Build): Promise<Parity> {
  const began = performance.now();
  const node = new InNode();
  const others: Runtime[] = [];
  try {
    for (const name of options.runtimes) others.push(await startRuntime(name, built));
    const played = await playAll([node, ...others], sharesOf(options));
    return await assess(options, node, others, played, began);
  } finally {
    for (const runtime of others) await runtime.stop();
  }
}

interface Played {
  readonly runtime: Runtime;
  readonly share: Share;
  lines: string[];
  seconds: number;
}

function sharesOf({ seed, decisions, families }: ParityOptions): Share[] {
  const shares: Share[] = [];
  for (const family of families) {
    const perCounter = asksPerCounter * (family === mixed ? 4 * groupSize : 1);
    const counters = Math.ceil(decisions / perCounter);
    for (let first = 0; first < counters; first += countersPerShare) {
      const count = Math.min(countersPerShare, counters - first);
      shares.push({ seed, family, first, counters: count, asks: asksPerCounter });
    }
  }
  return shares;
}

/** Plays as many shares at once as there are processors; a runtime with only one process plays one share after the other. */
async function playAll(runtimes: readonly Runtime[], shares: readonly Share[]): Promise<Played[]> {
  const waiting = runtimes.flatMap((runtime) =>
    shares.map((share): Played => ({ runtime, share, lines: [], seconds: 0 })),
  );
  // Runtimes that cannot be split come first, or one processor would wait for them in the end.
  waiting.sort((a, b) => Number(a.runtime.parallel) - Number(b.runtime.parallel));
  const played = [...waiting];
  const busy = new Set<Runtime>();
  const work = async () => {
    for (;;) {
      const index = waiting.findIndex(({ runtime }) => runtime.parallel || !busy.has(runtime));
      const [next] = index < 0 ? [] : waiting.splice(index, 1);
      if (next === undefined) return;
      busy.add(next.runtime);
      const began = performance.now();
      // A runtime that fails differs from one that does not. The assessment finds out which counter it was.
      next.lines = await next.runtime.digests(next.share).catch(() => []);
      next.seconds = (performance.now() - began) / 1000;
      busy.delete(next.runtime);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return played;
}

async function assess(
  options: ParityOptions,
  node: Runtime,
  others: readonly Runtime[],
  played: readonly Played[],
  began: number,
): Promise<Parity> {
  const expected = played.filter(({ runtime }) => runtime === node);
  const reports: string[] = [];
  const shown: Difference[] = [];
  const pairs: Pair[] = [];
  for (const runtime of others) {
    const pair: Pair = { runtime: runtime.name, decisions: 0, differences: 0, seconds: 0 };
    pairs.push(pair);
    let first: readonly [family: number, counter: number] | undefined;
    for (const { share, lines } of expected) {
      const own = played.find((one) => one.runtime === runtime && one.share === share) as Played;
      pair.seconds += own.seconds;
      for (const [i, line] of lines.entries()) {
        pair.decisions += Number(line.split(" ")[1]) * (share.family === mixed ? groupSize : 1);
        if (own.lines[i] === line) continue;
        pair.differences += 1;
        if (own.lines.length > 0) first ??= [share.family, share.first + i];
      }
      if (own.lines.length === 0) first ??= [share.family, await firstThatFails(node, runtime, share)];
    }
    if (first !== undefined) {
      const [family, counter] = first;
      const [last] = shown.slice(-1);
      if (last !== undefined && (await firstDifference(node, runtime, last.trace)) !== undefined) {
        reports.push(`${runtime.name} differs from node on that trace too.`);
        continue;
      }
      const trace = randomTrace(options.seed, family, counter, asksPerCounter);
      const difference = await shortestDifference(node, runtime, trace);
      shown.push(difference);
      reports.push(difference.words);
    }
  }
  const allowed: Record<string, number> = {};
  for (const family of options.families) {
    const counts = expected.filter(({ share }) => share.family === family).flatMap(({ lines }) => lines);
    const sum = (column: number) => counts.reduce((total, line) => total + Number(line.split(" ")[column]), 0);
    allowed[familyName(family)] = sum(2) / sum(1);
  }
  return { pairs, allowed, seconds: (performance.now() - began) / 1000, reports };
}

async function firstThatFails(node: Runtime, runtime: Runtime, share: Share): Promise<number> {
  for (let counter = share.first; counter < share.first + share.counters; counter++) {
    const trace = randomTrace(share.seed, share.family, counter, share.asks);
    if ((await firstDifference(node, runtime, trace)) !== undefined) return counter;
  }
  throw new Error(`${runtime.name} failed at ${JSON.stringify(share)}, but no counter of it alone`);
}

/** @returns a line for each pair, and one with the parts that were allowed */
export function tableOf({ pairs, allowed, seconds }: Parity): string {
  const lines = pairs.map(
    ({ runtime, decisions, differences, seconds: own }) =>
      `node against ${runtime.padEnd(8)} ${decisions.toLocaleString("en").padStart(10)} decisions  ` +
      `${String(differences).padStart(4)} differences  ${own.toFixed(1).padStart(5)} s`,
  );
  const parts = Object.entries(allowed).map(([name, part]) => `${name} ${Math.round(part * 100)}%`);
  return [...lines, `allowed: ${parts.join(", ")}`, `${seconds.toFixed(1)} s in all`].join("\n");
}
