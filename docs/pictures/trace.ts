// One bursty trace, and what each algorithm does with it: decided by the limiter itself, at set times.

import { emptyDecision } from "../../limiter/src/algorithms/decision.ts";
import type { Algorithm, Limit } from "../../limiter/src/algorithms/limit.ts";
import { memoryCounter, memoryRing } from "../../limiter/src/algorithms/memory-ring.ts";
import { admits, charge, describe, rateOf, refund } from "../../limiter/src/algorithms/rate.ts";

export const fromSeconds = 6;
export const toSeconds = 51;
export const windowSeconds = 10;
export const quota = 10;
/** How long a request runs: of concurrency alone it is asked. */
export const runsSeconds = 3;

/** Requests in each second: ten just before a window's border and twelve just behind it, a spell of too many, a pause, then many at once and one a second. */
const offeredIn: Readonly<Record<number, number>> = {
  8: 5,
  9: 5,
  10: 6,
  11: 6,
  ...Object.fromEntries([18, 19, 20, 21, 22, 23, 24, 25, 26, 27].map((second) => [second, 2])),
  38: 16,
  ...Object.fromEntries([39, 40, 41, 42, 43, 44, 45, 46, 47, 48].map((second) => [second, 1])),
};

export interface Outcome {
  readonly limit: Omit<Limit, "name">;
  readonly requests: readonly DecidedRequest[];
  /** What is counted, as the algorithm sees it, from `fromSeconds` on in steps of `sampleSeconds`. */
  readonly levels: readonly number[];
}

export interface DecidedRequest {
  readonly atSeconds: number;
  readonly admitted: boolean;
  /** When the service behind sees it. */
  readonly departsAtSeconds: number;
}

export const sampleSeconds = 0.05;
const second = 1_000_000;
/** 2023-11-14T22:13:20Z, where windows of 10 s and blocks of 2 s begin. */
const zeroUs = 1_700_000_000 * second;

export function outcomeOf(algorithm: Algorithm): Outcome {
  const limit = {
    algorithm,
    quota,
    windowUs: (algorithm === "concurrency" ? 60 : windowSeconds) * second,
    burst: quota,
    precisionUs: algorithm === "sliding-window" ? 2 * second : 0,
  };
  const rate = rateOf(limit);
  const counter = memoryCounter();
  const decision = emptyDecision();
  const requests: DecidedRequest[] = [];
  const levels: number[] = [];
  const running: { endsAt: number; heldAtUs: number }[] = [];
  const arrivals = offeredTimes();
  const samples = Math.round((toSeconds - fromSeconds) / sampleSeconds);

  const endedBy = (atSeconds: number) => {
    while (running[0] !== undefined && running[0].endsAt <= atSeconds) {
      const { endsAt, heldAtUs } = running.shift() as (typeof running)[0];
      refund(rate, counter, memoryRing, usAt(endsAt), heldAtUs, 1);
    }
  };
  const arrive = (atSeconds: number) => {
    endedBy(atSeconds);
    const nowUs = usAt(atSeconds);
    const admitted = admits(rate, counter, memoryRing, nowUs, 1);
    if (admitted) charge(rate, counter, memoryRing);
    describe(rate, counter, memoryRing, nowUs, 1, admitted, decision);
    if (admitted && algorithm === "concurrency") {
      running.push({ endsAt: atSeconds + runsSeconds, heldAtUs: counter.atUs });
    }
    requests.push({ atSeconds, admitted, departsAtSeconds: (nowUs - zeroUs + decision.delayUs) / second });
  };

  /** Units that a token-bucket holds, requests that wait, units that the others count. */
  const levelAt = (atSeconds: number): number => {
    if (algorithm === "leaky-bucket") {
      return requests.filter(({ admitted, departsAtSeconds }) => admitted && departsAtSeconds > atSeconds).length;
    }
    const nowUs = usAt(atSeconds);
    describe(rate, counter, memoryRing, nowUs, 1, admits(rate, counter, memoryRing, nowUs, 1), decision);
    return algorithm === "token-bucket" ? decision.remaining : decision.limit - decision.remaining;
  };

  for (let i = 0; i <= samples; i++) {
    const atSeconds = fromSeconds + i * sampleSeconds;
    while (arrivals[0] !== undefined && arrivals[0] <= atSeconds) arrive(arrivals.shift() as number);
    endedBy(atSeconds);
    levels.push(levelAt(atSeconds));
  }
  return { limit, requests, levels };
}

/** The most that reached the service behind in any interval of one window, and where the first such begins. */
export function mostInAWindow({ requests }: Outcome): { count: number; fromSeconds: number } {
  const departures = requests.filter(({ admitted }) => admitted).map(({ departsAtSeconds }) => departsAtSeconds);
  let most = { count: 0, fromSeconds: 0 };
  for (const start of departures) {
    const endUs = usAt(start + windowSeconds);
    const count = departures.filter((at) => at >= start && usAt(at) < endUs).length;
    if (count > most.count) most = { count, fromSeconds: start };
  }
  return most;
}

/** Requests of one second arrive evenly spread. */
function offeredTimes(): number[] {
  return Object.entries(offeredIn).flatMap(([at, count]) =>
    Array.from({ length: count }, (_, i) => Number(at) + (i + 0.5) / count),
  );
}

function usAt(seconds: number): number {
  return zeroUs + Math.round(seconds * second);
}
