// Builds the gateway's Lua, unless none of its sources has changed since the last build.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { whyNot } from "./kept-file.ts";
import { projectDir } from "./settings.ts";
import { runStep, SetupError, say } from "./step.mjs";

export const gatewayDist = join(projectDir, "gateway/dist");
const entry = join(gatewayDist, "sluice.lua");
/** The part of the build that the control plane needs. */
const redisScripts = join(gatewayDist, "sluice_redis_scripts.json");
const builder = join(projectDir, "gateway/build/build.ts");
const stampFile = join(gatewayDist, ".sluice-build");
const sources = ["limiter", "gateway", "tsconfig.base.json", "package-lock.json"];

/** @throws SetupError with the compiler's output when the build fails */
export async function requireGatewayBuild(): Promise<void> {
  // An image or a package contains the build's output, but not the builder.
  if (!existsSync(builder) && (existsSync(entry) || existsSync(redisScripts))) return;
  const stamp = fingerprint();
  if (
    existsSync(entry) &&
    existsSync(redisScripts) &&
    existsSync(stampFile) &&
    readFileSync(stampFile, "utf8") === stamp
  )
    return;
  const built = await runStep("building the gateway", process.execPath, [builder], { cwd: projectDir });
  if (built.code !== 0) throw new SetupError(`the build failed (exit code ${built.code}):\n${built.output.trimEnd()}`);
  try {
    writeFileSync(stampFile, stamp);
  } catch (error) {
    say(`warning: cannot write ${stampFile}: ${whyNot(error)}; the next start will build again`);
  }
}

/** Hashes the path, size and modification time of every source file: reading all files would take ten times as long. */
function fingerprint(): string {
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
