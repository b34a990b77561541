// Plays worlds on a gateway with a deliberate break, and says whether the oracle finds it.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brokenCopy } from "../parity/build.ts";
import type { OracleBreak } from "./breaks.ts";
import { type OracleOptions, type Outcome, play } from "./oracle.ts";
import { project, VirtualPlayer } from "./players.ts";

/** @returns what was played; nothing of it differs if the break went unnoticed */
export async function playBroken(broken: OracleBreak, options: OracleOptions): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-oracle-"));
  // Building Redis' scripts takes most of the time, so a break that shows on a node, too, is only looked for there.
  const isInRedis = broken.scope === "cluster";
  const scopes = isInRedis ? (["cluster"] as const) : (["node"] as const);
  try {
    const root = brokenCopy(directory, broken, isInRedis ? ["redis"] : ["luajit"]);
    const scripts = "gateway/dist/sluice_redis_scripts.lua";
    if (!isInRedis) cpSync(join(project, scripts), join(root, scripts));
    const player = new VirtualPlayer(root);
    try {
      const once = { ...options, kinds: { ...options.kinds, scopes }, mostDifferences: 1 };
      return await play(once, player, () => {});
    } finally {
      await player.stop();
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
}
