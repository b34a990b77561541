// Runs a build, unless none of its sources has changed since the last time.
import { createHash } from "node:crypto";
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { whyNot } from "./kept-file.ts";
import { projectDir } from "./settings.ts";
import { runStep, SetupError, say } from "./step.mjs";

export interface Build {
  /** As in "building the …". */
  readonly what: string;
  readonly builder: string;
  /** The directory that it writes. */
  readonly dist: string;
  /** Files of it that must be there. */
  readonly outputs: readonly string[];
  /** What it reads: files and directories, from the project's directory on. */
  readonly sources: readonly string[];
}

/** @throws SetupError with the builder's output when the build fails */
export async function buildOnce({ what, builder, dist, outputs, sources }: Build): Promise<void> {
  const stampFile = join(dist, ".sluice-build");
  const stamp = fingerprint(sources);
  const isBuilt = outputs.every((file) => existsSync(join(dist, file)));
  if (isBuilt && existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp) return;
  // A build has no secrets, and the account of the data directory reads it, whoever has built it.
  const readable = ["-c", 'umask 022 && exec "$0" "$1"', process.execPath, builder];
  const built = await runStep(`building the ${what}`, "/bin/sh", readable, { cwd: projectDir });
  if (built.code !== 0) {
    throw new SetupError(`the build of the ${what} failed (exit code ${built.code}):\n${built.output.trimEnd()}`);
  }
  try {
    writeFileSync(stampFile, stamp);
    chmodSync(stampFile, 0o644);
  } catch (error) {
    say(`warning: cannot write ${stampFile}: ${whyNot(error)}; the next start will build again`);
  }
}

/** Hashes the path, size and modification time of every source file: reading all files would take ten times as long. */
function fingerprint(sources: readonly string[]): string {
  const hash = createHash("sha256");
  const add = (path: string) => {
    const about = statSync(join(projectDir, path));
    if (!about.isDirectory()) {
      hash.update(`${path}\0${about.size}\0${about.mtimeMs}\n`);
      return;
    }
    for (const name of readdirSync(join(projectDir, path)).sort()) {
      if (name !== "dist" && name !== "node_modules") add(`${path}/${name}`);
    }
  };
  for (const path of sources) add(path);
  return hash.digest("hex");
}
