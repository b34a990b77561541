// `npm run mutation [-- FILE…]`: changes limiter/ in thousands of small ways and counts which of them no test notices. Prints
// the score of each file and what survived, and ends with 1 below 90%. Whole reports lie in dist/mutation/. What was found
// stays known until the code or a test changes; `--force` begins anew.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { projectDir } from "../../launch/settings.ts";
import { fail, runStep, SetupError, say } from "../../launch/step.mjs";

const leastScore = 90;
const here = import.meta.dirname;
const reportFile = join(projectDir, "dist/mutation/report.json");

/** What we read of a report, in the format of mutation-testing-report-schema. */
interface Report {
  readonly files: Readonly<Record<string, { readonly source: string; readonly mutants: readonly Mutant[] }>>;
}

interface Mutant {
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly status: "Killed" | "Timeout" | "Survived" | "NoCoverage" | "Ignored" | "RuntimeError" | "CompileError";
  readonly location: { readonly start: Place; readonly end: Place };
}

interface Place {
  readonly line: number;
  readonly column: number;
}

try {
  await install();
  const files = process.argv.slice(2).filter((argument) => !argument.startsWith("-"));
  const options = process.argv.slice(2).filter((argument) => argument.startsWith("-"));
  await runStryker([...(files.length > 0 ? ["--mutate", files.join(",")] : []), ...options]);
  const { files: reported } = JSON.parse(readFileSync(reportFile, "utf8")) as Report;
  process.exitCode = printScores(reported) < leastScore ? 1 : 0;
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

/** @returns killed mutants, those that made tests run for ever among them, of all that are valid, in percent */
function printScores(files: Report["files"]): number {
  let [allKilled, all] = [0, 0];
  const survivors: string[] = [];
  const lines: string[] = [];
  for (const [file, { source, mutants }] of Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const killed = mutants.filter(({ status }) => status === "Killed" || status === "Timeout").length;
    const alive = mutants.filter(({ status }) => status === "Survived" || status === "NoCoverage");
    if (killed + alive.length === 0) continue;
    lines.push(`${percent(killed, killed + alive.length).padStart(7)}  ${killed}/${killed + alive.length}  ${file}`);
    allKilled += killed;
    all += killed + alive.length;
    for (const mutant of alive) survivors.push(describe(file, source, mutant));
  }
  const score = all === 0 ? 0 : (100 * allKilled) / all;
  process.stdout.write(`${survivors.join("\n")}\n\n${lines.join("\n")}\n`);
  process.stdout.write(`${percent(allKilled, all).padStart(7)}  ${allKilled}/${all}  limiter/\n`);
  return score;
}

/** `limiter/src/x.ts:7:3 a < b → a <= b` */
function describe(
  file: string,
  source: string,
  { location: { start, end }, mutatorName, replacement }: Mutant,
): string {
  const lines = source.split("\n").slice(start.line - 1, end.line);
  const last = lines.length - 1;
  const text = lines
    .map((line, i) => line.slice(i === 0 ? start.column - 1 : 0, i === last ? end.column - 1 : undefined).trim())
    .join(" ");
  return `${file}:${start.line}:${start.column} ${text} → ${replacement?.replace(/\s+/g, " ") ?? mutatorName}`;
}

function percent(part: number, whole: number): string {
  return whole === 0 ? "–" : `${((100 * part) / whole).toFixed(2)}%`;
}
