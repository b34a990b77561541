import { join, resolve } from "node:path";
import type { Command } from "./driver.ts";

const driver = join(resolve(import.meta.dirname, "../.."), "clients/typescript/conformance/driver.ts");

export async function typescriptDriver(): Promise<Command> {
  return { command: process.execPath, args: [driver] };
}
