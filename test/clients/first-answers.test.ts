// The examples of docs/clients.md as a reader runs them, against a real gateway: each prints its first answer.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { callerOf } from "../fixtures/clients/check-api-client.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { goIn } from "./go-toolchain.ts";
import { compileJava } from "./java-build.ts";
import { python, pythonEnv } from "./python-driver.ts";

const project = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(project, "docs/clients.md"), "utf8");
const caller = { app: "default", token: "a-token-of-the-docs" };
const run = promisify(execFile);

let gateway: LoneGateway;
let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "sluice-first-answers-"));
  gateway = await LoneGateway.start({
    policies: [
      { name: "sms-vendor", key: ["header:x-user"], limits: [{ algorithm: "fixed-window", quota: 4, window: "366d" }] },
    ],
    callers: [callerOf(caller)],
  });
});
afterAll(async () => {
  await gateway?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** @returns the example, which asks the gateway of this test */
function example(language: string): string {
  const [, text = ""] = new RegExp(`<!-- example: ${language} -->\n\`\`\`\\w+\n(.*?)\`\`\``, "s").exec(page) ?? [];
  expect(text.trim().split("\n").length).toBeLessThanOrEqual(6);
  expect(text).toContain("http://127.0.0.1:8079");
  return text.replace("http://127.0.0.1:8079", gateway.privateUrl);
}

const env = { ...process.env, TOKEN: caller.token };

it("TypeScript", async () => {
  const client = join(project, "clients/typescript");
  const installed = join(directory, "ts/node_modules/sluice-client");
  mkdirSync(installed, { recursive: true });
  cpSync(join(client, "package.json"), join(installed, "package.json"));
  await run(process.execPath, [
    join(project, "node_modules/typescript/bin/tsc"),
    "-p",
    client,
    "--outDir",
    join(installed, "dist"),
  ]);
  writeFileSync(join(directory, "ts/first.mts"), example("typescript"));
  const { stdout } = await run(process.execPath, ["first.mts"], { cwd: join(directory, "ts"), env });
  expect(stdout).toBe("send it\n");
});

it("Go", async () => {
  const module = join(directory, "go");
  mkdirSync(module);
  symlinkSync(join(project, "clients/go"), join(module, "sluice"));
  writeFileSync(join(module, "go.mod"), "module example.test/first\n\ngo 1.19\n");
  await goIn(module, "mod", "edit", "-require=sluice/client@v0.0.0", "-replace=sluice/client=./sluice");
  const imports = ["context", "fmt", "log", "os"].map((name) => `\t"${name}"\n`).join("");
  const program = `package main\n\nimport (\n${imports}\tsluice "sluice/client"\n)\n\nfunc main() {\n${example("go")}}\n`;
  writeFileSync(join(module, "main.go"), program);
  const { code, output } = await goIn(module, "build", "-o", "first", ".");
  expect({ code, output }).toEqual({ code: 0, output: "" });
  const { stdout } = await run(join(module, "first"), { env });
  expect(stdout).toBe("true 0s <nil>\n");
});

it("Java", async () => {
  const classes = await compileJava("src/main/java");
  const program = `import sluice.*;\nclass First {\n  public static void main(String[] args) throws Exception {\n${example("java")}  }\n}\n`;
  const file = join(directory, "First.java");
  writeFileSync(file, program);
  const { stdout } = await run("java", ["-cp", classes, file], { env });
  expect(stdout).toBe("send it\n");
});

it("Python", async () => {
  const file = join(directory, "first.py");
  writeFileSync(file, example("python"));
  const { stdout } = await run(python, [file], { env: { ...env, ...pythonEnv } });
  expect(stdout).toBe("send it\n");
});
