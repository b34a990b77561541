// `npm run oracle`: plays random worlds and compares every decision with the reference. README.md here says more.

import { optionsFrom } from "../../launch/command-line.ts";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { breaks } from "./breaks.ts";
import { playBroken } from "./broken.ts";
import { asTest, type OracleOptions, play, shrunk } from "./oracle.ts";
import { VirtualPlayer } from "./players.ts";
import type { AlgorithmName } from "./world.ts";
import { everyAlgorithm } from "./worlds.ts";

const usage =
  "npm run oracle -- [--worlds 10000] [--seed 1] [--algorithm NAME] [--scope node|cluster] [--break NAME|all]";
const text = { type: "string" } as const;

try {
  const values = optionsFrom(
    process.argv.slice(2),
    { worlds: text, seed: text, algorithm: text, scope: text, break: text },
    usage,
  );
  const worlds = whole("worlds", values.worlds, values.break === undefined ? 10_000 : 600);
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
  const options = { seed, worlds, kinds: { scopes, algorithms }, mostDifferences: 5 };
  if (values.break === undefined) await playAll(options);
  else await playBreaks(values.break, options);
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

async function playAll(options: OracleOptions): Promise<void> {
  const player = new VirtualPlayer();
  const beganAt = performance.now();
  let saidAt = beganAt;
  const outcome = await play(options, player, (now) => {
    if (performance.now() - saidAt < 10_000) return;
    saidAt = performance.now();
    say(`${now.worlds} of ${options.worlds} worlds, ${now.decisions} decisions, ${now.found.length} differences`);
  });
  for (const one of outcome.found) say(`${asTest(await shrunk(player, one))}\n`);
  await player.stop();
  const { worlds, decisions, refusals, gaveUp, found } = outcome;
  const seconds = ((performance.now() - beganAt) / 1_000).toFixed(0);
  say(
    `${worlds} worlds (${gaveUp} left open), ${decisions} decisions (${refusals} refusals), ${seconds} s; ${found.length} differ`,
  );
  process.exitCode = found.length === 0 ? 0 : 1;
}

async function playBreaks(name: string, options: OracleOptions): Promise<void> {
  const chosen = breaks.filter((one) => name === "all" || one.name === name);
  if (chosen.length === 0) {
    throw new SetupError(
      `--break: expected all or one of ${breaks.map((one) => one.name).join("; ")}, got ${name}\n${usage}`,
    );
  }
  let found = 0;
  for (const broken of chosen) {
    const outcome = await playBroken(broken, options);
    const [first] = outcome.found;
    if (first !== undefined) found += 1;
    say(
      `${broken.name}: ${first === undefined ? "unnoticed" : "found"} in ${outcome.worlds} worlds, ${outcome.decisions} decisions`,
    );
  }
  say(`${found} of ${chosen.length} breaks were found`);
  process.exitCode = found === chosen.length ? 0 : 1;
}
