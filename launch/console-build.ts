// Builds the console's pages, unless none of their sources has changed since the last build.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { buildOnce } from "./build-once.ts";
import { projectDir } from "./settings.ts";

export const consoleDist = join(projectDir, "console/dist");
const page = "index.html";
const builder = join(projectDir, "console/build/build.ts");

/** @throws SetupError with the builder's output when the build fails */
export async function requireConsoleBuild(): Promise<void> {
  // As with the gateway's.
  if (!existsSync(builder) && existsSync(join(consoleDist, page))) return;
  const sources = ["console", "limiter", "tsconfig.base.json", "package-lock.json"];
  await buildOnce({ what: "console", builder, dist: consoleDist, outputs: [page], sources });
}
