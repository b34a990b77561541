// Builds the gateway's Lua, unless none of its sources has changed since the last build.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { buildOnce } from "./build-once.ts";
import { projectDir } from "./settings.ts";

export const gatewayDist = join(projectDir, "gateway/dist");
const entry = "sluice.lua";
/** The part of the build that the control plane needs. */
const redisScripts = "sluice_redis_scripts.json";
const builder = join(projectDir, "gateway/build/build.ts");

/** @throws SetupError with the compiler's output when the build fails */
export async function requireGatewayBuild(): Promise<void> {
  const outputs = [entry, redisScripts, "sluice_check.lua", "sluice-check"];
  // An image or a package contains the build's output, but not the builder.
  if (!existsSync(builder) && outputs.some((file) => existsSync(join(gatewayDist, file)))) return;
  const sources = ["limiter", "gateway", "tsconfig.base.json", "package-lock.json"];
  await buildOnce({ what: "gateway", builder, dist: gatewayDist, outputs, sources });
}
