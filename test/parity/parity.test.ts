// Compares random decisions of each algorithm in Node and in each other runtime, and tests that the runner finds a break. This
// is a fifth of what `npm run parity` plays, which takes two cores four minutes.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { breaks } from "./breaks.ts";
import { build, project } from "./build.ts";
import { compare, everything, type Parity, tableOf } from "./parity.ts";
import { runtimeNames } from "./runtimes.ts";
import { algorithms } from "./trace.ts";

const minutes = 60_000;
const decisionsOfEach = 200_000;

beforeAll(requireGatewayBuild, 2 * minutes);

describe("on the same random traces, decisions and stored counters are the same", () => {
  let parity: Parity;

  beforeAll(async () => {
    const built = await build(undefined);
    try {
      parity = await compare({ ...everything, decisions: decisionsOfEach }, built);
    } finally {
      built.remove();
    }
    process.stdout.write(`${tableOf(parity)}\n`);
  }, 15 * minutes);

  test.each(runtimeNames)("in Node and in %s: 200,000 decisions of each algorithm, and groups", (name) => {
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

// Each test but the last builds everything from a copy of its own.
describe.concurrent("npm run parity -- --break", () => {
  const [first] = breaks;

  function run(...args: readonly string[]): Promise<{ status: unknown; stdout: string; stderr: string }> {
    const command = [join(project, "test/parity/main.ts"), ...args];
    return new Promise((resolve) => {
      execFile(process.execPath, command, { cwd: project, timeout: 3 * minutes }, (error, stdout, stderr) =>
        resolve({ status: error === null ? 0 : error.code, stdout, stderr }),
      );
    });
  }

  test(
    "finds one broken line, and shrinks to a trace that can be read",
    async () => {
      const { status, stdout } = await run("--break", first?.name ?? "", "--runtime", "luajit", "--runtime", "nginx");
      expect(stdout).toContain("The break was found.");
      expect(status).toBe(0);
      // The report follows the build's output, if any. One runtime finds the break first; the other plays its trace.
      const report = stdout.split("\n\n").find((text) => text.includes(" differs from node. ")) ?? "";
      const [, finder = ""] = /^(luajit|nginx) differs/m.exec(report) ?? [];
      expect(report).toMatch(/^ {2}sliding-window: \d+ per \d+ ms/m);
      expect(report).toMatch(new RegExp(`^ {6}node: {2}.*\\n {6}${finder}: {2}`, "m"));
      expect(report.match(/^ {2}\S*\d+ µs: (ask|peek|refund|renew)/gm)?.length).toBeLessThanOrEqual(10);
      const other = finder === "nginx" ? "luajit" : "nginx";
      expect(stdout).toContain(`${other} differs from node on that trace too.`);
    },
    4 * minutes,
  );

  test(
    "fails if a break is not noticed",
    async () => {
      const { status, stdout } = await run(
        "--break",
        first?.name ?? "",
        "--runtime",
        "luajit",
        "--algorithm",
        "fixed-window",
      );
      expect(stdout).toContain("The break went unnoticed.");
      expect(status).toBe(1);
    },
    2 * minutes,
  );

  test("lists the breaks that it knows", async () => {
    const { status, stderr } = await run("--break", "no such");
    expect(stderr).toBe(
      `--break: expected one of ${breaks.map(({ name }) => `"${name}"`).join(", ")}, got "no such"\n`,
    );
    expect(status).toBe(2);
  });
});
