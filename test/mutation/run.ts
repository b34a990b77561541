// `npm run mutation [-- FILE…]`: changes limiter/ and a part of gateway/ in thousands of small ways and counts which of them no test
// notices. Prints the score of each file and what survived, and ends with 1 if a score is too low. Whole reports lie in
// dist/mutation/. What was found stays known until the code or a test changes; `--force` begins anew.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { projectDir } from "../../launch/settings.ts";
import { fail, runStep, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { mutateGateway } from "./gateway/gateway-half.ts";
import { printScores, type Report } from "./scores.ts";

const leastScoreOfLimiter = 90;
/** For each file. */
const leastScoreOfGateway = 85;
const here = import.meta.dirname;
const reportFile = join(projectDir, "dist/mutation/report.json");

try {
  const files = process.argv.slice(2).filter((argument) => !argument.startsWith("-"));
  const strange = files.find((file) => !/^(limiter|gateway)\//.test(file) || !existsSync(join(projectDir, file)));
  if (strange !== undefined) {
    throw new SetupError(
      `expected a file or folder of limiter/ or gateway/, got ${strange}\nnpm run mutation -- [FILE…]`,
    );
  }
  await requireSystemPackages("mutation", process.env["SLUICE_NGINX"]);
  await install();
  const options = process.argv.slice(2).filter((argument) => argument.startsWith("-"));
  const inRoom = (room: string) => files.filter((file) => file.startsWith(room));
  if (files.length === 0 || inRoom("limiter/").length > 0) await mutateLimiter(inRoom("limiter/"), options);
  if (files.length === 0 || inRoom("gateway/").length > 0) {
    const reported = await mutateGateway({ files: inRoom("gateway/"), force: options.includes("--force") });
    if (printScores(reported, "gateway/").lowest < leastScoreOfGateway) process.exitCode = 1;
  }
} catch (error) {
  fail(error);
}

/** Stryker is no dependency of the project's own: only who runs it needs it. */
async function install(): Promise<void> {
  const installed = join(here, "node_modules/.package-lock.json");
  const locked = join(here, "package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(locked).mtimeMs) return;
  const { code, output } = await runStep("installing Stryker", "npm", ["ci", "--no-audit", "--no-fund"], { cwd: here });
  if (code !== 0) throw new SetupError(`npm ci in test/mutation failed (exit code ${code}):\n${output.trimEnd()}`);
}

async function mutateLimiter(files: readonly string[], options: readonly string[]): Promise<void> {
  await runStryker([...(files.length > 0 ? ["--mutate", files.join(",")] : []), ...options]);
  const { files: reported } = JSON.parse(readFileSync(reportFile, "utf8")) as Report;
  if (printScores(reported, "limiter/").all < leastScoreOfLimiter) process.exitCode = 1;
}

async function runStryker(args: string[]): Promise<void> {
  say("changing limiter/ …");
  const stryker = join(here, "node_modules/@stryker-mutator/core/bin/stryker.js");
  const config = relative(projectDir, join(here, "stryker.config.json"));
  const child = spawn(process.execPath, [stryker, "run", config, ...args], { cwd: projectDir, stdio: "inherit" });
  const code = await new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (exitCode) => resolve(exitCode ?? 1));
  });
  if (code !== 0) throw new SetupError(`Stryker failed (exit code ${code})`);
}
