// The driver of the Go client, built from the sources as they are now.

import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cache, go } from "./go-toolchain.ts";

let built: Promise<string> | undefined;

/** Builds it once per process. @returns how to start it */
export async function goDriver(): Promise<{ command: string; args: string[] }> {
  built ??= build();
  return { command: await built, args: [] };
}

/**
 * Builds into a temporary directory and moves the driver from there to where it stays: several processes may build at once, and one that is
 * killed leaves no driver for each run. It is not in shared memory, where containers run no programs.
 */
async function build(): Promise<string> {
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(join(cache, "building-"));
  try {
    const fresh = join(directory, "driver");
    const { code, output } = await go("build", "-o", fresh, "./conformance/driver");
    if (code !== 0) throw new Error(`the Go driver cannot be built (exit code ${code}):\n${output}`);
    const driver = join(cache, "driver");
    renameSync(fresh, driver);
    return driver;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
