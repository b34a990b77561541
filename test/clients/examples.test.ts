// The example services, one in each language, share a vendor's limit at two gateways with Redis: set up by examples/setup.ts, and stopped
// as an operator stops them.

import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { countsOf } from "../fixtures/measures/gateway-counts.ts";
import { factsOf, type SecondOfService, secondsIn, tableOfSeconds } from "../fixtures/measures/shared-rate.ts";
import { Program } from "../fixtures/servers/program.ts";
import { adminToken, type Gateway, System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import { buildExamples, type ExampleProgram, makeBuildDir } from "./example-programs.ts";
import { goIn, project } from "./go-toolchain.ts";

const services = ["go", "java", "node"];
const playedForSeconds = 8;

const directory = makeBuildDir();
const tokenFile = join(directory, "token");
let system: System;
let programs: ExampleProgram[];
beforeAll(async () => {
  programs = await buildExamples(directory);
  system = await System.start({ redis: true, gateways: 2 });
  await system.untilConnected();
});
afterAll(async () => {
  await system?.stop();
  rmSync(directory, { recursive: true, force: true });
});

function setUp(env = {}) {
  const settings = {
    SLUICE_CONTROL_URL: system.controlUrl,
    SLUICE_API_TOKEN: adminToken,
    SLUICE_TOKEN_FILE: tokenFile,
  };
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(project, "examples/setup.ts")], {
    env: { ...process.env, ...settings, ...env },
    encoding: "utf8",
  });
  return { status, output: `${stdout}${stderr}` };
}

describe("examples/setup.ts", () => {
  it("puts the policy and makes a token that only its user reads, and keeps that token the next time", () => {
    const first = setUp();
    expect(first, first.output).toMatchObject({ status: 0 });
    expect(first.output).toContain("sms-vendor: 2 of 2 connected gateways apply it");
    const token = readFileSync(tokenFile, "utf8");
    expect(token).toMatch(/^sluice_\S+\n$/);
    expect(statSync(tokenFile).mode & 0o777).toBe(0o600);
    expect(setUp().output).toContain("the token that is there is still known");
    expect(readFileSync(tokenFile, "utf8")).toBe(token);
  });

  it("says what it lacks, or what was answered", () => {
    expect(setUp({ SLUICE_API_TOKEN: "" })).toEqual({
      status: 1,
      output:
        "sluice: SLUICE_API_TOKEN: expected the admin token that the control plane's first start printed, got nothing\n",
    });
    const wrong = setUp({ SLUICE_API_TOKEN: "another" });
    expect(wrong.status).toBe(1);
    expect(wrong.output).toContain("/policies/sms-vendor?wait=5s: expected that it is carried out, got 401");
  });
});

it("the services name what they lack", () => {
  for (const { command, args } of programs) {
    const env = { ...process.env, SLUICE_TOKEN: "", SLUICE_TOKEN_FILE: "", SLUICE_URL: "http://127.0.0.1:1" };
    const { status, stderr } = spawnSync(command, args, { env, encoding: "utf8" });
    expect(status).toBe(1);
    expect(stderr).toContain(
      "SLUICE_TOKEN or SLUICE_TOKEN_FILE: expected a caller token or a file with one, got nothing",
    );
  }
});

it("the Go service is formatted, and vets without a complaint", async () => {
  const { stdout } = spawnSync("gofmt", ["-l", "examples/go"], { cwd: project, encoding: "utf8" });
  expect(stdout).toBe("");
  expect(await goIn(join(project, "examples/go"), "vet", "./...")).toEqual({ code: 0, output: "" });
});

it("three services at two gateways get the vendor's rate together, and no more", async () => {
  setUp();
  const [one, other] = system.gateways as [Gateway, Gateway];
  const running = await Promise.all(
    programs.map((program) => startService(program, program.service === "java" ? other : one)),
  );
  const ready = Date.now();
  await until("they have counted for some seconds", () => Date.now() > ready + playedForSeconds * 1000);
  await Promise.all(running.map((program) => program.stop()));
  // The JVM ends by a signal with 143, after what is to be done at its end.
  expect(running.map(({ child }) => child.exitCode)).toEqual([0, 143, 0]);

  const lines = running.flatMap(({ output }) => secondsIn(output));
  const from = Math.min(...lines.map(({ at }) => at));
  const seconds = Math.max(...lines.map(({ at }) => at)) + 1 - from;
  // The counter was full when they started, and what they counted was decided since then.
  const facts = factsOf(lines, services, { from, seconds, late: 0, leastPercent: 50 }).slice(0, -1);
  const shown = tableOfSeconds(lines, services, from, seconds).join("\n");
  for (const { what, expected, seen, ok } of facts) {
    expect(ok, `${what}: expected ${expected}, got ${seen}\n${shown}`).toBe(true);
  }
  // With their last line, each has counted every message: there are more than one in 50 ms even on a busy machine.
  for (const service of services) {
    expect(messagesOf(lines, service), shown).toBeGreaterThan(20 * playedForSeconds);
  }
  for (const gateway of system.gateways) {
    const { decisions, withoutRedis } = await countsOf([gateway], "sms-vendor");
    expect(decisions).toBeGreaterThan(0);
    expect(withoutRedis).toBe(0);
  }
});

it("a service whose gateway is away sends nothing, and counts each message as failed", async () => {
  const running = await Promise.all(
    programs.map((program) => startService(program, { privateUrl: "http://127.0.0.1:1" }, { SLUICE_TOKEN: "a-token" })),
  );
  await Promise.all(running.map((program) => program.stop()));
  for (const { output } of running) {
    const lines = secondsIn(output);
    const sum = (what: "allowed" | "refused" | "failed") => lines.reduce((before, line) => before + line[what], 0);
    expect([sum("allowed"), sum("refused")], output).toEqual([0, 0]);
    expect(sum("failed"), output).toBeGreaterThan(0);
  }
});

/** Resolves when the service has printed its first second. */
function startService(
  { command, args }: ExampleProgram,
  { privateUrl }: Pick<Gateway, "privateUrl">,
  env = {},
): Promise<Program> {
  const settings = { SLUICE_URL: privateUrl, SLUICE_TOKEN: "", SLUICE_TOKEN_FILE: tokenFile, ...env };
  return Program.start({ command, args, env: settings, readyWhen: /^\{/m });
}

function messagesOf(lines: readonly SecondOfService[], wanted: string): number {
  return lines
    .filter(({ service }) => service === wanted)
    .reduce((sum, { allowed, refused, failed }) => sum + allowed + refused + failed, 0);
}
