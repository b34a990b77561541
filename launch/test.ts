// `npm test`: sets everything up, runs every suite, and prints one line with the totals. A suite that cannot run counts as
// failed, and so does a run without any test.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { requireConsoleBuild } from "./console-build.ts";
import { requireGatewayBuild } from "./gateway-build.ts";
import { projectDir, readSettings } from "./settings.ts";
import { fail, say } from "./step.mjs";
import { requireSystemPackages } from "./system-packages.ts";

interface Outcome {
  readonly passed: number;
  readonly failed: number;
}

interface VitestOutcome extends Outcome {
  readonly files: readonly TestFile[];
}

const mostSlowest = 10;
const mostLinesOfFailure = 6;
const args = process.argv.slice(2);
const running = new Set<ChildProcess>();

try {
  await requireSystemPackages("test", readSettings(process.env).nginx);
  await requireGatewayBuild();
  await requireConsoleBuild();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, endAll);
  const outcomes = await allSuites();
  const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0);
  const failed = outcomes.reduce((sum, outcome) => sum + outcome.failed, 0);
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
} catch (error) {
  fail(error);
}

/** Tests that measure run alone. The others leave the processors time, which style, types and Lua take. */
async function allSuites(): Promise<Outcome[]> {
  // A caller who names projects wants no others.
  if (args.some((arg) => arg.startsWith("--project")))
    return [await lint(), await busted(), await vitest("vitest", [])];
  const projects = ["units", "system", "on mariadb", "on postgres", "clients"].map((name) => `--project=${name}`);
  const beside = vitest("vitest: units, system, databases and clients", projects);
  const [first, ...others] = await Promise.all([beside, lint(beside), busted(beside)]);
  const last = await vitest("vitest: measured", ["--project=measured"]);
  say(`the slowest files:\n${slowestFiles([...first.files, ...last.files]).join("\n")}`);
  const failures = [...failedTests(first.files), ...failedTests(last.files)];
  if (failures.length > 0) say(`the failed tests:\n${failures.join("\n")}`);
  return [first, ...others, last];
}

/** Checks style and types. It counts only if something is wrong. */
async function lint(beside?: Promise<unknown>): Promise<Outcome> {
  const { code } = await runSuite("style and types", "npm", ["run", "--silent", "lint"], beside);
  if (code !== 0) say("style and types: failed");
  return { passed: 0, failed: code === 0 ? 0 : 1 };
}

async function vitest(name: string, which: readonly string[]): Promise<VitestOutcome> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));
  const report = join(directory, "vitest.json");
  const { code } = await runSuite(name, process.execPath, [
    join(projectDir, "node_modules/vitest/vitest.mjs"),
    "run",
    "--dir=test",
    // If the caller names files, one of the runs may have none. A run of everything without a test fails in the end.
    "--passWithNoTests",
    ...which,
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
    ...args,
  ]);
  const counts: Report = existsSync(report) ? JSON.parse(readFileSync(report, "utf8")) : {};
  rmSync(directory, { recursive: true });
  const outcome = outcomeOf(code, Number(counts.numPassedTests ?? 0), Number(counts.numFailedTests ?? 0));
  return { ...outcome, files: counts.testResults ?? [] };
}

interface TestFile {
  readonly name: string;
  readonly startTime: number;
  readonly endTime: number;
  /** Why the file could not be run. */
  readonly message: string;
  readonly assertionResults: readonly TestResult[];
}

interface TestResult {
  readonly fullName: string;
  readonly status: string;
  readonly failureMessages?: readonly string[];
}

/** What vitest writes, as far as it is used here. Times are in ms. */
interface Report {
  readonly numPassedTests?: number;
  readonly numFailedTests?: number;
  readonly testResults?: readonly TestFile[];
}

function slowestFiles(results: readonly TestFile[]): string[] {
  const files = results.map(({ name, startTime, endTime }) => ({
    name: relative(projectDir, name),
    seconds: (endTime - startTime) / 1000,
  }));
  return files
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, mostSlowest)
    .map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`);
}

/** The failed tests with their reasons, once more at the end, where a reader of a long output looks first. */
function failedTests(results: readonly TestFile[]): string[] {
  return results.flatMap(({ name, message, assertionResults }) => {
    const file = relative(projectDir, name);
    const failed = assertionResults.filter(({ status }) => status === "failed");
    const ofFile = message === "" || failed.length > 0 ? [] : [`  ${file}: ${firstLines(message)}`];
    const ofTests = failed.map(
      ({ fullName, failureMessages = [] }) => `  ${file}: ${fullName}: ${failureMessages.map(firstLines).join("; ")}`,
    );
    return [...ofFile, ...ofTests];
  });
}

function firstLines(text: string): string {
  return text.split("\n").slice(0, mostLinesOfFailure).join("\n    ");
}

/** Tests the Lua that runs in nginx, under the same LuaJIT. */
async function busted(beside?: Promise<unknown>): Promise<Outcome> {
  const directory = "test/gateway";
  const hasSpecs =
    existsSync(join(projectDir, directory)) &&
    readdirSync(join(projectDir, directory), { recursive: true }).some((name) => String(name).endsWith("_spec.lua"));
  if (!hasSpecs) return { passed: 0, failed: 0 };
  const options = ["--lua=/usr/bin/luajit", "-o", "plainTerminal", directory];
  const { code, output } = await runSuite("busted", "busted", options, beside);
  const counts = /(\d+) success(?:es)? \/ (\d+) failures? \/ (\d+) errors?/.exec(output);
  return outcomeOf(code, Number(counts?.[1] ?? 0), Number(counts?.[2] ?? 0) + Number(counts?.[3] ?? 0));
}

/** A suite that failed without a failed test (a file that does not load, an error outside tests) counts as one failure. */
function outcomeOf(code: number, passed: number, failed: number): Outcome {
  return { passed, failed: code !== 0 && failed === 0 ? 1 : failed };
}

/**
 * Runs one suite and shows its output.
 *
 * @param beside another suite, whose output is shown meanwhile: this one gets a low priority, and is shown whole at the end
 */
function runSuite(
  name: string,
  command: string,
  options: readonly string[],
  beside?: Promise<unknown>,
): Promise<{ code: number; output: string }> {
  const isLive = beside === undefined;
  say(isLive ? `${name} …` : `${name}: meanwhile …`);
  return new Promise((resolve) => {
    const [program = command, ...rest] = isLive ? [command, ...options] : ["nice", "-n", "10", command, ...options];
    const stdio = ["ignore", "pipe", isLive ? "inherit" : "pipe"] as const;
    const child = spawn(program, rest, { cwd: projectDir, stdio: [...stdio], detached: true });
    running.add(child);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        if (isLive) process.stdout.write(text);
        output += text;
      });
    }
    const end = (code: number) => {
      running.delete(child);
      if (isLive) return resolve({ code, output });
      const show = () => {
        process.stdout.write(`sluice: ${name}:\n${output}`);
        resolve({ code, output });
      };
      beside.then(show, show);
    };
    child.on("error", (error) => {
      output += `cannot be started: ${error.message}\n`;
      end(1);
    });
    child.on("close", (code) => end(code ?? 1));
  });
}

/** A signal ends each suite with all that it has started, and then this run. */
function endAll(): void {
  for (const { pid } of running) if (pid !== undefined) process.kill(-pid, "SIGTERM");
  process.exit(1);
}
