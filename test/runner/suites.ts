// The suites of a whole run, each a process of its own: vitest, style and types, and the Lua specs.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectDir } from "../../launch/settings.ts";
import { say } from "../../launch/step.mjs";
import { type RunReport, readReport, reportVariable } from "./file-report.ts";
import type { Counts } from "./outcome.ts";

const running = new Set<ChildProcess>();

/** @param projects of vitest.config.ts; none: those that the arguments name */
export async function vitest(name: string, projects: readonly string[], args: readonly string[]): Promise<RunReport> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));
  const report = join(directory, "report.json");
  const options = [
    join(projectDir, "node_modules/vitest/vitest.mjs"),
    "run",
    "--dir=test",
    // If the caller names files, one of the runs may have none. A run of everything without a test fails in the end.
    "--passWithNoTests",
    ...projects.map((project) => `--project=${project}`),
    "--reporter=default",
    `--reporter=${join(import.meta.dirname, "file-report.ts")}`,
    ...args,
  ];
  try {
    const { code } = await runSuite(name, process.execPath, options, undefined, { [reportVariable]: report });
    const { files, errors } = existsSync(report) ? readReport(report) : { files: [], errors: [] };
    const isExplained = errors.length > 0 || files.some(({ failures }) => failures.length > 0);
    if (code === 0 || isExplained) return { files, errors };
    return { files, errors: [`${name}: vitest ended with exit code ${code}`] };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Checks style and types. It counts only if something is wrong. */
export async function lint(beside?: Promise<unknown>): Promise<Counts> {
  const { code } = await runSuite("style and types", "npm", ["run", "--silent", "lint"], beside);
  if (code !== 0) say("style and types: failed");
  return { passed: 0, failed: code === 0 ? 0 : 1 };
}

/** Tests the Lua that runs in nginx, under the same LuaJIT. */
export async function busted(beside?: Promise<unknown>): Promise<Counts> {
  const options = ["--lua=/usr/bin/luajit", "-o", "plainTerminal", "test/gateway"];
  const { code, output } = await runSuite("busted", "busted", options, beside);
  const counts = /(\d+) success(?:es)? \/ (\d+) failures? \/ (\d+) errors?/.exec(output);
  const failed = Number(counts?.[2] ?? 0) + Number(counts?.[3] ?? 0);
  return { passed: Number(counts?.[1] ?? 0), failed: code !== 0 && failed === 0 ? 1 : failed };
}

/** Ends each suite with all that it has started. */
export function endSuites(): void {
  for (const { pid } of running) if (pid !== undefined) process.kill(-pid, "SIGTERM");
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
  environment: NodeJS.ProcessEnv = {},
): Promise<{ code: number; output: string }> {
  const isLive = beside === undefined;
  say(isLive ? `${name} …` : `${name}: meanwhile …`);
  return new Promise((resolve) => {
    const [program = command, ...rest] = isLive ? [command, ...options] : ["nice", "-n", "10", command, ...options];
    const stdio = ["ignore", "pipe", isLive ? "inherit" : "pipe"] as const;
    const env = { ...process.env, ...environment };
    const child = spawn(program, rest, { cwd: projectDir, stdio: [...stdio], detached: true, env });
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
