// Plays random worlds and compares them; makes each world that differs as small as it gets, and prints it as a test.

import { compareAside } from "./comparing.ts";
import type { Player } from "./players.ts";
import type { Compared } from "./reference/reference.ts";
import { smallest } from "./shrink.ts";
import type { World } from "./world.ts";
import { type Kinds, worldOf } from "./worlds.ts";

export interface OracleOptions {
  readonly seed: number;
  readonly worlds: number;
  readonly kinds: Kinds;
  /** After so many differences, no more worlds are played. */
  readonly mostDifferences: number;
}

export interface Found {
  readonly seed: number;
  readonly world: World;
  readonly words: string;
}

export interface Outcome {
  worlds: number;
  decisions: number;
  refusals: number;
  gaveUp: number;
  readonly found: Found[];
}

export async function play(
  options: OracleOptions,
  player: Player,
  progress: (outcome: Outcome) => void,
): Promise<Outcome> {
  const outcome: Outcome = { worlds: 0, decisions: 0, refusals: 0, gaveUp: 0, found: [] };
  let next = options.seed;
  const end = options.seed + options.worlds;
  const work = async () => {
    while (next < end && outcome.found.length < options.mostDifferences) {
      const seed = next++;
      const world = worldOf(seed, options.kinds);
      const compared = await comparedBy(player, world);
      outcome.worlds += 1;
      outcome.decisions += compared.decisions;
      outcome.refusals += compared.refusals;
      outcome.gaveUp += compared.gaveUp ? 1 : 0;
      if (compared.difference !== undefined) {
        const { index, words } = compared.difference;
        outcome.found.push({ seed, words, world: { ...world, events: world.events.slice(0, index + 1) } });
      }
      progress(outcome);
    }
  };
  await Promise.all(Array.from({ length: player.atOnce }, work));
  return outcome;
}

export async function comparedBy(player: Player, world: World): Promise<Compared> {
  const { answers, fault } = await player.play(world);
  if (fault !== undefined) {
    return { difference: { index: world.events.length - 1, words: fault }, decisions: 0, refusals: 0, gaveUp: false };
  }
  return compareAside(world, answers);
}

/** Makes a world that differs as small as it gets. */
export async function shrunk(player: Player, { seed, world, words }: Found): Promise<Found> {
  const least = await smallest(world, async (one) => (await comparedBy(player, one)).difference?.index);
  const { difference } = await comparedBy(player, least);
  return { seed, world: least, words: difference?.words ?? `it does not differ any more when played again; ${words}` };
}

/** What was found, as a test for oracle.test.ts. */
export function asTest({ seed, world, words }: Found): string {
  const lines = (items: readonly unknown[]) => items.map((item) => `      ${JSON.stringify(item)},`).join("\n");
  const consumers = world.consumers === undefined ? "" : `\n    consumers: [\n${lines(world.consumers)}\n    ],`;
  return `// Seed ${seed}: ${words}
it("…", async () => {
  await agrees({
    startMs: ${world.startMs},
    redisAheadUs: ${world.redisAheadUs},
    gateways: ${world.gateways},
    workers: ${world.workers},
    policies: [
${lines(world.policies)}
    ],${consumers}
    events: [
${lines(world.events)}
    ],
  });
});`;
}
