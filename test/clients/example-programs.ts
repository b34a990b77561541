// Builds the example services as examples/README.md says, each from the sources as they are now, into a directory of its own.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Command } from "./driver.ts";
import { cache, goIn, project } from "./go-toolchain.ts";
import { compileJava } from "./java-build.ts";

export interface ExampleProgram extends Command {
  readonly service: string;
}

/** @returns an empty directory, not in shared memory, where containers run no programs */
export function makeBuildDir(): string {
  mkdirSync(cache, { recursive: true });
  return mkdtempSync(join(cache, "examples-"));
}

export async function buildExamples(directory: string): Promise<ExampleProgram[]> {
  return [
    { service: "go", ...(await buildGo(directory)) },
    { service: "java", ...(await buildJava()) },
    { service: "node", ...(await buildNode(directory)) },
  ];
}

async function buildGo(directory: string): Promise<Command> {
  const command = join(directory, "service");
  const { code, output } = await goIn(join(project, "examples/go"), "build", "-o", command, ".");
  if (code !== 0) throw new Error(`examples/go cannot be built (exit code ${code}):\n${output}`);
  return { command, args: [] };
}

async function buildJava(): Promise<Command> {
  const classes = await compileJava("src/main/java", "../../examples/java");
  return { command: "java", args: ["-XX:+UseSerialGC", "-cp", classes, "Service"] };
}

/** What the workspace builds lies where npm would install it, so that other builds of it may run meanwhile. */
async function buildNode(directory: string): Promise<Command> {
  const client = join(directory, "node_modules/sluice-client");
  const compiler = join(project, "node_modules/typescript/bin/tsc");
  const source = join(project, "clients/typescript");
  await promisify(execFile)(process.execPath, [compiler, "-p", source, "--outDir", join(client, "dist")]);
  cpSync(join(source, "package.json"), join(client, "package.json"));
  cpSync(join(project, "examples/node/service.mjs"), join(directory, "service.mjs"));
  return { command: process.execPath, args: [join(directory, "service.mjs")] };
}
