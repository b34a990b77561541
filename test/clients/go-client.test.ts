// The Go client with Go's own tools: what is its language's alone, such as contexts and goroutines. The conformance suite tests the rest.

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { goDriver } from "./go-driver.ts";
import { go, goIn, project } from "./go-toolchain.ts";

it("formats and vets without a complaint", async () => {
  const { status, stdout } = spawnSync("gofmt", ["-l", "clients/go"], { cwd: project, encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
  expect(await go("vet", "./...")).toEqual({ code: 0, output: "" });
});

it("passes its own tests", async () => {
  const { code, output } = await go("test", "./...");
  expect(code, output).toBe(0);
  expect(output).toMatch(/^ok\s+sluice\/client\s/m);
});

it("has a driver that answers a line with a line, and names what is wrong", async () => {
  const { command, args } = await goDriver();
  const lines = [
    { client: { url: "http://127.0.0.1:1", token: "a token" } },
    { client: { url: "http://127.0.0.1:1", token: "a-token", onFailure: "deny" } },
    { do: [{ call: "check", policy: "api", key: ["acme"] }] },
  ];
  const input = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  const { stdout, status } = spawnSync(command, args, { input, encoding: "utf8" });
  expect(status).toBe(0);
  const answers = stdout.trimEnd().split("\n");
  expect(answers.map((text) => JSON.parse(text))).toEqual([
    { error: 'sluice: Token: expected a caller token: visible ASCII characters, got " " as byte 2' },
    { ok: true },
    {
      results: [
        {
          allowed: false,
          policy: "api",
          reason: "failure",
          source: "failure",
          failure: expect.stringContaining("connection refused"),
        },
      ],
    },
  ]);
});

it("is added to another module as its README says, whose program runs there", async () => {
  const readme = readFileSync(join(project, "clients/go/README.md"), "utf8");
  const [, command = ""] = /\n(go mod edit .*)\n/.exec(readme) ?? [];
  const [, program = ""] = /\n```go\n(package main\n.*?)```\n/s.exec(readme) ?? [];
  const directory = mkdtempSync(join(tmpdir(), "sluice-go-module-"));
  try {
    cpSync(join(project, "clients/go"), join(directory, "third_party/sluice"), { recursive: true });
    writeFileSync(join(directory, "go.mod"), "module example.test/orders\n\ngo 1.19\n");
    writeFileSync(join(directory, "main.go"), program);
    const added = await goIn(directory, ...command.split(" ").slice(1));
    expect(added).toEqual({ code: 0, output: "" });
    const { code, output } = await goIn(directory, "run", ".");
    expect(code, output).toBe(1);
    // go run says so itself, after what the program has said: without a token there is no client.
    expect(output).toContain("sluice: Token: expected a caller token: visible ASCII characters, got nothing");
  } finally {
    rmSync(directory, { recursive: true });
  }
});
