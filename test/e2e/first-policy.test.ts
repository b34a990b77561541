// Follows the README's first policy as a newcomer would: `npm start`, the token that it prints, and every command of that
// section as it stands there. The output is compared with what the README shows.

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { Program } from "../fixtures/servers/program.ts";

const project = resolve(import.meta.dirname, "../..");
const directory = mkdtempSync(join(tmpdir(), "sluice-first-policy-"));
let program: Program;
let ports: Record<"8079" | "8080" | "8081" | "8082", number>;

const start = () =>
  Program.start({
    command: process.execPath,
    args: [join(project, "launch/start.ts")],
    env: {
      SLUICE_DATA_DIR: directory,
      SLUICE_GATEWAY_PRIVATE_PORT: `${ports["8079"]}`,
      SLUICE_GATEWAY_PORT: `${ports["8080"]}`,
      SLUICE_CONTROL_PORT: `${ports["8081"]}`,
      SLUICE_UPSTREAM_PORT: `${ports["8082"]}`,
    },
    readyWhen: /^sluice: ready$/m,
  });

beforeAll(async () => {
  const [a, b, c, d] = (await freePorts(4)) as [number, number, number, number];
  ports = { "8079": a, "8080": b, "8081": c, "8082": d };
  program = await start();
});
afterAll(async () => {
  await program?.stop("SIGINT");
  rmSync(directory, { recursive: true, force: true });
});

interface Step {
  readonly command: string;
  readonly expected: string;
}

/** @returns the commands of a section (```sh), each with the output that follows it (```text) */
function stepsOf(section: string): Step[] {
  const text = readFileSync(join(project, "README.md"), "utf8").split(`\n## ${section}\n`)[1]?.split("\n## ")[0] ?? "";
  const steps: Step[] = [];
  let command = "";
  for (const [, language, content] of text.matchAll(/^```(sh|text)\n(.*?)^```$/gms)) {
    if (language === "sh") command = content as string;
    else steps.push({ command, expected: content as string });
  }
  return steps;
}

/** The README shows the waits of a reader's machine; a slow machine may have spent a second of them already. */
function withoutHaste(output: string): string {
  return output.trimEnd().replace(/(429 remaining 0 |Try again in )[12]\b/g, "$12");
}

it("does what the README says, word for word", async () => {
  const [, token] = /admin token \(shown once\): (\S+)/.exec(program.output) ?? [];
  expect(token, program.output).toMatch(/^sluice_adm_/);
  const steps = stepsOf("A first policy in five minutes");
  expect(steps).toHaveLength(4);
  for (const { command, expected } of steps) {
    const here = command.replace(/127\.0\.0\.1:(80\d\d)/g, (_, port) => `127.0.0.1:${ports[port as "8080"]}`);
    const { stdout } = await promisify(execFile)("bash", ["-c", here], {
      env: { ...process.env, SLUICE_API_TOKEN: token },
    });
    expect(withoutHaste(stdout)).toBe(withoutHaste(expected));
  }
});

it("keeps policies over a restart, and never shows the token again", async () => {
  await program.stop("SIGINT");
  program = await start();
  expect(program.output).not.toContain("sluice_adm_");
  const answers = await Promise.all([1, 2, 3, 4].map(() => fetch(`http://127.0.0.1:${ports["8080"]}/hello`)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 429]);
});

it("names the port that is taken, its variable and its holder, and ends", async () => {
  await expect(start()).rejects.toThrow(
    new RegExp(`port ${ports["8080"]} \\(SLUICE_GATEWAY_PORT\\) is taken by (nginx|openresty) \\(pid \\d+\\)`),
  );
});
