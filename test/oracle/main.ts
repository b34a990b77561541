// `npm run oracle`: plays random worlds and compares every decision with the reference. README.md here says more.

import { optionsFrom } from "../../launch/command-line.ts";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { asTest, play, shrunk } from "./oracle.ts";
import { VirtualPlayer } from "./players.ts";
import type { AlgorithmName } from "./world.ts";
import { everyAlgorithm } from "./worlds.ts";

const usage = "npm run oracle -- [--worlds 10000] [--seed 1] [--algorithm NAME] [--scope node|cluster]";
const text = { type: "string" } as const;

try {
  const values = optionsFrom(process.argv.slice(2), { worlds: text, seed: text, algorithm: text, scope: text }, usage);
  const worlds = whole("worlds", values.worlds, 10_000);
  const seed = whole("seed", values.seed, 1);
  if (values.algorithm !== undefined && !(everyAlgorithm as readonly string[]).includes(values.algorithm)) {
    throw new SetupError(
      `--algorithm: expected one of ${everyAlgorithm.join(", ")}, got ${values.algorithm}\n${usage}`,
    );
  }
  const algorithms = values.algorithm === undefined ? everyAlgorithm : [values.algorithm as AlgorithmName];
  const scopes = (["node", "cluster"] as const).filter((scope) => values.scope === undefined || values.scope === scope);
  if (scopes.length === 0) throw new SetupError(`--scope: expected node or cluster, got ${values.scope}\n${usage}`);
  await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
  await requireGatewayBuild();
  const player = new VirtualPlayer();
  const beganAt = performance.now();
  let saidAt = beganAt;
  const kinds = { scopes, algorithms };
  const outcome = await play({ seed, worlds, kinds, mostDifferences: 5 }, player, (now) => {
    if (performance.now() - saidAt < 10_000) return;
    saidAt = performance.now();
    say(`${now.worlds} of ${worlds} worlds, ${now.decisions} decisions, ${now.found.length} differences`);
  });
  for (const one of outcome.found) say(`${asTest(await shrunk(player, one))}\n`);
  await player.stop();
  const seconds = ((performance.now() - beganAt) / 1_000).toFixed(0);
  say(
    `${outcome.worlds} worlds, ${outcome.decisions} decisions, ${outcome.refusals} of them refused, ${outcome.gaveUp} worlds left open, ${seconds} s; ` +
      `${outcome.found.length} worlds differ`,
  );
  process.exitCode = outcome.found.length === 0 ? 0 : 1;
} catch (error) {
  fail(error);
}

function whole(name: string, given: string | undefined, otherwise: number): number {
  if (given === undefined) return otherwise;
  const value = Number(given);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new SetupError(`--${name}: expected a whole number from 1 on, got "${given}"\n${usage}`);
  }
  return value;
}
