// Compiles the Java client with javac, without a build tool and with every warning an error, as its README says. What is compiled lies in memory
// and goes with the test file.

import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { makeMemoryDir } from "../fixtures/servers/memory-dir.ts";

const client = resolve(import.meta.dirname, "../../clients/java");

/** @param folders below clients/java. @returns the directory with the classes */
export async function compileJava(...folders: readonly string[]): Promise<string> {
  const sources = folders.flatMap((folder) =>
    readdirSync(join(client, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".java"))
      .map((name) => join(client, folder, name)),
  );
  const directory = makeMemoryDir("java");
  const options = ["--release", "17", "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-d", directory];
  await promisify(execFile)("javac", [...options, ...sources]);
  return directory;
}
