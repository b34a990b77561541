// `npm run oracle`: plays random worlds and compares every decision with the reference. README.md here says more.

import { optionsFrom } from "../../launch/command-line.ts";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { breaks } from "./breaks.ts";
import { playBroken } from "./broken.ts";
import { asTest, type OracleOptions, play, shrunk } from "./oracle.ts";
import { type Player, VirtualPlayer } from "./players.ts";
import { RealPlayer } from "./real/player.ts";
import { everyAlgorithm, everyTopic } from "./worlds.ts";

const usage =
  "npm run oracle -- [--real] [--worlds 10000] [--seed 1] [--algorithm NAME] [--scope node|cluster] [--topic NAME] [--break NAME|all]";
const text = { type: "string" } as const;
/** So many worlds are played side by side on real servers: some of them wait. */
const fleets = 4;

try {
  const values = optionsFrom(
    process.argv.slice(2),
    { worlds: text, seed: text, algorithm: text, scope: text, topic: text, break: text, real: { type: "boolean" } },
    usage,
  );
  const worlds = whole("worlds", values.worlds, values.break === undefined ? 10_000 : 600);
  const seed = whole("seed", values.seed, 1);
  const algorithms = chosen("algorithm", values.algorithm, everyAlgorithm);
  const scopes = chosen("scope", values.scope, ["node", "cluster"] as const);
  const topics = values.topic === undefined ? {} : { topics: chosen("topic", values.topic, everyTopic) };
  await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
  await requireGatewayBuild();
  const options = { seed, worlds, kinds: { scopes, algorithms, ...topics }, mostDifferences: 5 };
  if (values.break !== undefined && values.real === true) {
    throw new SetupError(
      `--break: expected it without --real, because breaks are planted in virtual nginxes only\n${usage}`,
    );
  }
  if (values.break === undefined) await playAll(options, values.real === true);
  else await playBreaks(values.break, options);
} catch (error) {
  fail(error);
}

function chosen<Name extends string>(option: string, given: string | undefined, all: readonly Name[]): readonly Name[] {
  const found = all.filter((name) => given === undefined || name === given);
  if (found.length === 0)
    throw new SetupError(`--${option}: expected one of ${all.join(", ")}, got ${given}\n${usage}`);
  return found;
}

function whole(name: string, given: string | undefined, otherwise: number): number {
  if (given === undefined) return otherwise;
  const value = Number(given);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new SetupError(`--${name}: expected a whole number from 1 on, got "${given}"\n${usage}`);
  }
  return value;
}

async function playAll(options: OracleOptions, isReal: boolean): Promise<void> {
  const player: Player = isReal ? new RealPlayer(fleets) : new VirtualPlayer();
  try {
    const servers = await player.servers();
    say(`playing on ${servers}`);
    const beganAt = performance.now();
    const seconds = () => (performance.now() - beganAt) / 1_000;
    let saidAt = 0;
    let told = 0;
    const outcome = await play(options, player, (now) => {
      for (const { seed, words } of now.found.slice(told)) say(`seed ${seed} differs: ${words}`);
      told = now.found.length;
      if (seconds() - saidAt < 10) return;
      saidAt = seconds();
      say(
        `${now.worlds} of ${options.worlds} worlds, ${now.decisions} decisions (${(now.decisions / seconds()).toFixed(0)} a second), ${now.found.length} differences`,
      );
    });
    const played = seconds();
    for (const one of outcome.found) say(`${asTest(await shrunk(player, one))}\n`);
    const { worlds, decisions, refusals, gaveUp, found } = outcome;
    say(
      `${worlds} worlds (${gaveUp} left open), ${decisions} decisions (${refusals} refusals) on ${servers}, ${played.toFixed(0)} s; ${found.length} differ`,
    );
    process.exitCode = found.length === 0 ? 0 : 1;
  } finally {
    await player.stop();
  }
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
