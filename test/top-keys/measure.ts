// Compares the keys that the control plane shows as most refused with the truth, after many requests whose keys are distributed by
// Zipf's law: the n-th key has a share in proportion to 1 ÷ n.

import { spray } from "../fixtures/clients/key-spray.ts";
import { type Fact, fact } from "../fixtures/measures/fact.ts";
import { System } from "../fixtures/servers/system.ts";
import { untilWithin } from "../fixtures/until.ts";

export interface TopKeysOptions {
  readonly requests: number;
  readonly keys: number;
  readonly gateways: number;
  readonly workers: number;
}

export interface ShownKey {
  readonly key: string;
  /** How often it was refused. */
  readonly truth: number;
  readonly atLeast: number;
  readonly atMost: number;
}

export interface TopKeysResult {
  readonly requestsPerSecond: number;
  readonly shown: readonly ShownKey[];
  readonly othersAtMost: number;
  readonly facts: readonly Fact[];
}

const shownKeys = 10;
/** Keys are reported ten seconds after the first request of a report. */
const reportedWithinMs = 40_000;

interface Answered {
  readonly refused: readonly { readonly key: readonly string[]; readonly atLeast: number; readonly atMost: number }[];
  readonly othersAtMost: { readonly refused: number };
}

export async function measureTopKeys({ requests, keys, gateways, workers }: TopKeysOptions): Promise<TopKeysResult> {
  const system = await System.start({ gateways, workers });
  try {
    const limit = { algorithm: "fixed-window", quota: 1, window: "1d" };
    await system.put({ name: "zipf", match: { paths: ["/hello"] }, key: ["header:x-key"], limits: [limit] });
    // Each key is known to each gateway first, where it uses up its limit: all that follows is refused.
    const chosen = zipfKeys(keys, requests);
    const truth = new Map<string, number>();
    for (const key of chosen) truth.set(key, (truth.get(key) ?? 0) + 1);
    for (const { url } of system.gateways) await spray(`${url}/hello`, truth.keys());

    const startedAt = performance.now();
    await Promise.all(
      system.gateways.map(({ url }, i) =>
        spray(
          `${url}/hello`,
          chosen.filter((_, j) => j % gateways === i),
        ),
      ),
    );
    const seconds = (performance.now() - startedAt) / 1_000;

    let answered: Answered = { refused: [], othersAtMost: { refused: 0 } };
    const read = async () => {
      const path = `/apps/default/top?policy=zipf&window=hour&limit=${shownKeys}`;
      answered = JSON.parse((await system.api("GET", path)).body);
      return factsOf(answered, truth).every(({ ok }) => ok);
    };
    // Shown as it is if it never becomes as expected.
    await untilWithin("all is reported", reportedWithinMs, read).catch(() => undefined);
    return {
      requestsPerSecond: Math.round(requests / seconds),
      shown: answered.refused.map(({ key, ...bounds }) => {
        const name = key[0] ?? "";
        return { key: name, truth: truth.get(name) ?? 0, ...bounds };
      }),
      othersAtMost: answered.othersAtMost.refused,
      facts: factsOf(answered, truth),
    };
  } finally {
    await system.stop();
  }
}

function factsOf({ refused, othersAtMost }: Answered, truth: ReadonlyMap<string, number>): Fact[] {
  const sorted = [...truth].sort(([, a], [, b]) => b - a);
  const shown = new Map(refused.map(({ key, ...bounds }) => [key[0], bounds]));
  const missing = sorted.slice(0, shownKeys).filter(([key]) => !shown.has(key));
  const wrong = sorted.filter(([key, count]) => {
    const { atLeast, atMost } = shown.get(key) ?? { atLeast: 0, atMost: othersAtMost.refused };
    return count < atLeast || count > atMost;
  });
  return [
    fact("of the ten most refused keys, not shown", "0", `${missing.length}`, missing.length === 0),
    fact("keys refused less or more often than stated", "0", `${wrong.length}`, wrong.length === 0),
  ];
}

/** @returns the keys of the requests, always the same ones for the same numbers */
export function zipfKeys(keys: number, requests: number): string[] {
  const upTo = new Float64Array(keys);
  let sum = 0;
  for (let i = 0; i < keys; i++) {
    sum += 1 / (i + 1);
    upTo[i] = sum;
  }
  let state = 2026;
  const random = () => {
    // Numerical Recipes' linear congruential generator: good enough to draw, and the same everywhere.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return Array.from({ length: requests }, () => {
    const drawn = random() * sum;
    let low = 0;
    let high = keys - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((upTo[middle] as number) < drawn) low = middle + 1;
      else high = middle;
    }
    return `key-${low + 1}`;
  });
}
