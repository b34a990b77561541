// A command refuses an option that it does not know with its usage and nothing else, before it installs, builds or starts anything.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { projectDir } from "../../launch/settings.ts";

const withOptions = [
  "parity",
  "faults",
  "top-keys",
  "spray",
  "soak",
  "fuzz",
  "accuracy",
  "deltas",
  "console-load",
  "exactness",
  "bench",
  "check:compose",
];
const { scripts } = JSON.parse(readFileSync(join(projectDir, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};

it.each(withOptions)("npm run %s", async (name) => {
  const file = scripts[name]?.split(" ").at(-1) as string;
  const { status, output } = await run(join(projectDir, file), "--no-such-option");
  expect(output).toMatch(/^sluice: .*--no-such-option/);
  expect(output).toContain(`\nnpm run ${name} -- [`);
  expect(output).not.toMatch(/^ +at /m);
  expect(status).toBe(1);
});

it("npm run mutation refuses a file that is not there", async () => {
  for (const file of ["limiter/src/no-such-file.ts", "launch/start.ts"]) {
    const { status, output } = await run(join(projectDir, "test/mutation/run.ts"), file);
    expect(output).toBe(
      `sluice: expected a file or folder of limiter/ or gateway/, got ${file}\nnpm run mutation -- [FILE…]\n`,
    );
    expect(status).toBe(1);
  }
});

async function run(...args: readonly string[]): Promise<{ status: number | null; output: string }> {
  const child = spawn(process.execPath, args, { cwd: projectDir, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const status = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { status, output };
}
