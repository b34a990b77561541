// Builds the console into console/dist. Every text file also lies there compressed, so that nobody compresses it again for each browser.

import { globSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "vite";

const root = resolve(import.meta.dirname, "..");
/** Smaller ones would hardly shrink. */
const leastBytes = 1_024;

// Somebody who tests runs it too, in an environment for tests: there, React would be built for its own developers.
process.env["NODE_ENV"] = "production";
await build({ configFile: join(root, "vite.config.ts"), logLevel: "warn" });
for (const name of globSync("**/*.{js,css,svg}", { cwd: join(root, "dist") })) {
  const file = join(root, "dist", name);
  if (statSync(file).size < leastBytes) continue;
  const bytes = readFileSync(file);
  writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
  writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
}
