// Talks to spec-runner.lua, which runs specs of the virtual nginx with one mutant or without any.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { projectDir } from "../../../launch/settings.ts";
import { SetupError } from "../../../launch/step.mjs";

export interface Test {
  readonly number: number;
  /** The CPU time that it takes without a mutant. */
  readonly seconds: number;
  readonly file: string;
  readonly name: string;
  /** Of its name and its file's text. */
  readonly hash: string;
  /** Numbers of mutants. */
  readonly reaches: ReadonlySet<number>;
}

export interface SpecRunner {
  /** Runs these tests one after the other, until one fails or runs for ever. */
  findKiller(mutant: number, tests: readonly Test[]): Promise<{ killer: Test | undefined; timeout: boolean }>;
  end(): void;
}

/** A test may use so many times its usual CPU time, and this much more. */
const timesUsual = 5;
const moreSeconds = 1;
/** A mutant that takes all memory must not take the machine's. */
const mostKilobytes = 4_194_304;

/**
 * Runs every test without a mutant.
 *
 * @param bundle with the mutants
 * @param directory where the result is kept until the bundle or a spec changes
 */
export async function measure(bundle: string, specs: readonly string[], directory: string): Promise<Test[]> {
  const keptFile = join(directory, "measured.json");
  const inputs = [bundle, ...specs, ...globSync("test/gateway/**/*.lua", { cwd: projectDir }).sort()];
  const key = hash(inputs.map((file) => hash(readFileSync(resolve(projectDir, file), "utf8"))).join());
  let lines: string[] | undefined;
  if (existsSync(keptFile)) {
    const kept = JSON.parse(readFileSync(keptFile, "utf8")) as { key: string; lines: string[] };
    if (kept.key === key) lines = kept.lines;
  }
  if (lines === undefined) {
    lines = [];
    const { tell, next, end } = begin(bundle, specs);
    tell("measure");
    for (let line = await next(); line !== "measured"; line = await next()) lines.push(line);
    end();
  }
  const failed = lines.filter((line) => line.startsWith("failed "));
  if (failed.length > 0) throw new SetupError(`without a mutant, tests failed:\n${failed.join("\n")}`);
  writeFileSync(keptFile, JSON.stringify({ key, lines }));
  return testsOf(lines);
}

function testsOf(lines: readonly string[]): Test[] {
  const specs = new Map<string, string>();
  const textOf = (file: string) => {
    const text = specs.get(file) ?? readFileSync(join(projectDir, file), "utf8");
    specs.set(file, text);
    return text;
  };
  const tests: Test[] = [];
  for (let i = 0; i < lines.length; i += 2) {
    const [, number, seconds, file = "", ...words] = (lines[i] as string).split(" ");
    const [, reached = ""] = (lines[i + 1] as string).split(" ");
    const name = words.join(" ");
    tests.push({
      number: Number(number),
      seconds: Number(seconds),
      file,
      name,
      hash: hash(`${name}\n${textOf(file)}`),
      reaches: new Set(reached.split(",").map(Number)),
    });
  }
  return tests;
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

export function beginRunner(bundle: string, specs: readonly string[]): SpecRunner {
  const { tell, next, end } = begin(bundle, specs);
  return {
    findKiller: async (mutant, tests) => {
      const limits = tests.map(({ number, seconds }) => `${number}:${(seconds * timesUsual + moreSeconds).toFixed(3)}`);
      tell(`${mutant} ${limits.join(",")}`);
      const [, result, number] = (await next()).split(" ");
      const killer = result === "survived" ? undefined : tests.find((test) => test.number === Number(number));
      return { killer, timeout: result === "timeout" };
    },
    end,
  };
}

interface Process {
  tell(line: string): void;
  next(): Promise<string>;
  end(): void;
}

function begin(bundle: string, specs: readonly string[]): Process {
  const limited = `ulimit -v ${mostKilobytes}; exec "$@"`;
  const child = spawn("sh", ["-c", limited, "sh", "luajit", "test/mutation/gateway/spec-runner.lua", ...specs], {
    cwd: projectDir,
    env: { ...process.env, SLUICE_BUNDLE: bundle },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    tell: (line) => child.stdin.write(`${line}\n`),
    next: async () => {
      const { value, done } = await lines.next();
      if (done) throw new SetupError("spec-runner.lua ended before it answered");
      return value;
    },
    end: () => child.stdin.end(),
  };
}
