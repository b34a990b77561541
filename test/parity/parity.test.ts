// Compares random decisions of each algorithm in Node and in each other runtime, and tests that the runner finds a break. What
// this plays is a small part of `npm run parity`, and enough to find each break of breaks.ts several times over (see README.md).

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { breaks } from "./breaks.ts";
import { type Build, build, project } from "./build.ts";
import { readCommand, runCommand } from "./command.ts";
import { compare, everything, type Parity, tableOf } from "./parity.ts";
import { runtimeNames } from "./runtimes.ts";
import { algorithms } from "./trace.ts";

const minutes = 60_000;
const decisionsOfEach = 30_000;

beforeAll(requireGatewayBuild, 2 * minutes);

describe("on the same random traces, decisions and stored counters are the same", () => {
  let parity: Parity;

  beforeAll(async () => {
    const built = await build(undefined, runtimeNames);
    try {
      parity = await compare({ ...everything, decisions: decisionsOfEach }, built);
    } finally {
      built.remove();
    }
    process.stdout.write(`${tableOf(parity)}\n`);
  }, 15 * minutes);

  test.each(runtimeNames)("in Node and in %s: 30,000 decisions of each algorithm, and groups", (name) => {
    const pair = parity.pairs.find(({ runtime }) => runtime === name);
    expect(parity.reports.join("\n")).toBe("");
    expect(pair?.differences).toBe(0);
    expect(pair?.decisions).toBeGreaterThanOrEqual(algorithms.length * decisionsOfEach);
  });

  test("traces press against their limits: neither nearly all nor nearly nothing is allowed", () => {
    expect(Object.keys(parity.allowed)).toHaveLength(everything.families.length);
    for (const [name, part] of Object.entries(parity.allowed)) {
      expect(part, name).toBeGreaterThan(0.15);
      expect(part, name).toBeLessThan(0.85);
    }
  });
});

describe("npm run parity -- --break", () => {
  const [first] = breaks;
  const played = ["--runtime", "luajit", "--runtime", "nginx"];
  let built: Build;

  beforeAll(async () => {
    built = await build(first, ["luajit", "nginx"]);
  }, 3 * minutes);
  afterAll(() => built?.remove());

  async function run(...args: readonly string[]): Promise<{ status: number; output: string }> {
    let output = "";
    const command = readCommand(["--break", first?.name ?? "", ...played, ...args]);
    const status = await runCommand(command, built, (text) => {
      output += text;
    });
    return { status, output };
  }

  test(
    "finds one broken line, and shrinks to a trace that can be read",
    async () => {
      const { status, output } = await run();
      expect(output).toContain("The break was found.");
      expect(status).toBe(0);
      // One runtime finds the break first; the other plays its trace.
      const report = output.split("\n\n").find((text) => text.includes(" differs from node. ")) ?? "";
      const [, finder = ""] = /^(luajit|nginx) differs/m.exec(report) ?? [];
      expect(report).toMatch(/^ {2}sliding-window: \d+ per \d+ ms/m);
      expect(report).toMatch(new RegExp(`^ {6}node: {2}.*\\n {6}${finder}: {2}`, "m"));
      expect(report.match(/^ {2}\S*\d+ µs: (ask|peek|refund|renew)/gm)?.length).toBeLessThanOrEqual(10);
      const other = finder === "nginx" ? "luajit" : "nginx";
      expect(output).toContain(`${other} differs from node on that trace too.`);
    },
    2 * minutes,
  );

  test("fails if a break is not noticed", async () => {
    const { status, output } = await run("--algorithm", "fixed-window");
    expect(output).toContain("The break went unnoticed.");
    expect(status).toBe(1);
  });

  test("lists the breaks that it knows", async () => {
    const args = [join(project, "test/parity/main.ts"), "--break", "no such"];
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: project, encoding: "utf8" });
    expect(stderr).toBe(
      `sluice: --break: expected one of ${breaks.map(({ name }) => `"${name}"`).join(", ")}, got "no such"\n`,
    );
    expect(status).toBe(1);
  });
});
