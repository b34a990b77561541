// Turns runs into figures: medians over the rounds, and ratios to the baselines of the same round.

import type { Figures } from "./figures.ts";
import type { Machine } from "./machine.ts";
import type { Run } from "./measure.ts";
import { median, ratio, spread } from "./statistics.ts";
import { compareWithTargets, type TargetResult } from "./targets.ts";
import type { Variant } from "./variants.ts";

export interface Results {
  readonly date: string;
  readonly machine: Machine;
  readonly options: { readonly rounds: number; readonly seconds: number; readonly connections: number };
  /** The share of the machine's time that its host gave to others while the bench ran. */
  readonly stolenShare: number;
  readonly variants: readonly Figures[];
  /** Cluster decisions that were made without Redis because it did not reply in time; should be 0. */
  readonly degradedDecisions: number;
  readonly targets: readonly TargetResult[];
}

export function figuresOf(runs: ReadonlyMap<Variant, readonly Run[]>): Figures[] {
  const byName = new Map([...runs].map(([variant, rounds]) => [variant.name, rounds]));
  return [...runs].map(([variant, rounds]) => {
    const middle = (pick: (run: Run) => number) => median(rounds.map(pick));
    const native = byName.get(variant.native ?? "");
    const redisEach = byName.get(variant.redisEach ?? "");
    return {
      name: variant.name,
      about: variant.about,
      requestsPerSecond: middle((run) => run.requestsPerSecond),
      p50Ms: middle((run) => run.p50Ms),
      p99Ms: middle((run) => run.p99Ms),
      nginxCpuUs: middle((run) => run.nginxCpuUs),
      nginxCpuSpread: spread(rounds.map((run) => run.nginxCpuUs)),
      nginxCores: middle((run) => run.nginxCores),
      redisCpuUs: middle((run) => run.redisCpuUs),
      redisCallsPerSecond: middle((run) => run.redisCallsPerSecond),
      redisCallsPerRequest: middle((run) => run.redisCallsPerRequest),
      ...(native && { toNative: ratio(rounds, native, (run) => run.nginxCpuUs) }),
      ...(redisEach && {
        toRedisEach: {
          requestsPerSecond: ratio(rounds, redisEach, (run) => run.requestsPerSecond),
          cpu: ratio(rounds, redisEach, (run) => run.nginxCpuUs + run.redisCpuUs),
          p50: ratio(rounds, redisEach, (run) => run.p50Ms),
          p99: ratio(rounds, redisEach, (run) => run.p99Ms),
        },
      }),
      rounds,
    };
  });
}

export function resultsOf(about: Omit<Results, "variants" | "targets">, variants: readonly Figures[]): Results {
  return { ...about, variants, targets: compareWithTargets(variants) };
}
