// `npm test`: sets everything up, runs every suite, and prints one line with the totals. A suite that cannot run counts as
// failed, and so does a run without any test.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { requireGatewayBuild } from "./gateway-build.ts";
import { projectDir, readSettings } from "./settings.ts";
import { fail, say } from "./step.mjs";
import { requireSystemPackages } from "./system-packages.ts";

interface Outcome {
  readonly passed: number;
  readonly failed: number;
}

const mostSlowest = 10;

try {
  await requireSystemPackages("test", readSettings(process.env).nginx);
  await requireGatewayBuild();
  const outcomes = [await lint(), await vitest(), await busted()];
  const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0);
  const failed = outcomes.reduce((sum, outcome) => sum + outcome.failed, 0);
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
} catch (error) {
  fail(error);
}

/** Checks style and types. It counts only if something is wrong. */
async function lint(): Promise<Outcome> {
  const { code } = await runSuite("style and types", "npm", ["run", "--silent", "lint"]);
  if (code !== 0) say("style and types: failed");
  return { passed: 0, failed: code === 0 ? 0 : 1 };
}

async function vitest(): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));
  const report = join(directory, "vitest.json");
  const { code } = await runSuite("vitest", process.execPath, [
    join(projectDir, "node_modules/vitest/vitest.mjs"),
    "run",
    "--dir=test",
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
    ...process.argv.slice(2),
  ]);
  const counts: Report = existsSync(report) ? JSON.parse(readFileSync(report, "utf8")) : {};
  rmSync(directory, { recursive: true });
  say(`the slowest files:\n${slowestFiles(counts.testResults ?? []).join("\n")}`);
  return outcomeOf(code, Number(counts.numPassedTests ?? 0), Number(counts.numFailedTests ?? 0));
}

/** What vitest writes, as far as it is used here. Times are in ms. */
interface Report {
  readonly numPassedTests?: number;
  readonly numFailedTests?: number;
  readonly testResults?: readonly { readonly name: string; readonly startTime: number; readonly endTime: number }[];
}

function slowestFiles(results: NonNullable<Report["testResults"]>): string[] {
  const files = results.map(({ name, startTime, endTime }) => ({
    name: relative(projectDir, name),
    seconds: (endTime - startTime) / 1000,
  }));
  return files
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, mostSlowest)
    .map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`);
}

/** Tests the Lua that runs in nginx, under the same LuaJIT. */
async function busted(): Promise<Outcome> {
  const directory = "test/gateway";
  const hasSpecs =
    existsSync(join(projectDir, directory)) &&
    readdirSync(join(projectDir, directory), { recursive: true }).some((name) => String(name).endsWith("_spec.lua"));
  if (!hasSpecs) return { passed: 0, failed: 0 };
  const { code, output } = await runSuite("busted", "busted", [
    "--lua=/usr/bin/luajit",
    "-o",
    "plainTerminal",
    directory,
  ]);
  const counts = /(\d+) success(?:es)? \/ (\d+) failures? \/ (\d+) errors?/.exec(output);
  return outcomeOf(code, Number(counts?.[1] ?? 0), Number(counts?.[2] ?? 0) + Number(counts?.[3] ?? 0));
}

/** A suite that failed without a failed test (a file that does not load, an error outside tests) counts as one failure. */
function outcomeOf(code: number, passed: number, failed: number): Outcome {
  return { passed, failed: code !== 0 && failed === 0 ? 1 : failed };
}

/** Runs one suite and shows its output. A signal ends the suite and all that it has started, and then this run. */
function runSuite(name: string, command: string, args: string[]): Promise<{ code: number; output: string }> {
  say(`${name} …`);
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: projectDir, stdio: ["ignore", "pipe", "inherit"], detached: true });
    const endSuite = () => {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
      process.exit(1);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, endSuite);
    let output = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (text: string) => {
      process.stdout.write(text);
      output = (output + text).slice(-65536);
    });
    child.on("error", reject);
    child.on("close", (code) => {
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.off(signal, endSuite);
      resolve({ code: code ?? 1, output });
    });
  });
}
