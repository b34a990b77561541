// The driver of the Java client, for the conformance suite: compiled when a test file first asks for it.

import { existsSync } from "node:fs";
import { compileJava } from "./java-build.ts";

let compiled: Promise<string> | undefined;

/** @returns how to start the driver; it reads orders from stdin */
export async function javaDriver(): Promise<{ command: string; args: string[] }> {
  // Files share processes, and the directory of a former file is gone.
  if (compiled === undefined || !existsSync(await compiled)) {
    compiled = compileJava("src/main/java", "conformance");
  }
  return { command: "java", args: ["-XX:+UseSerialGC", "-cp", await compiled, "sluice.Driver"] };
}
