// Runs Go. What it compiles is kept between runs, because the standard library alone takes longer than all tests.

import { type ExecFileException, execFile } from "node:child_process";
import { join, resolve } from "node:path";

export const project = resolve(import.meta.dirname, "../..");
export const cache = join(project, "node_modules/.cache/go-client");

/** Go must use the machine's own toolchain and no network. */
const env = {
  ...process.env,
  GOCACHE: join(cache, "go"),
  GOENV: "off",
  GOFLAGS: "",
  GOPROXY: "off",
  GOTOOLCHAIN: "local",
  GOWORK: "off",
  // The program of the README must have no token.
  TOKEN: "",
};

/** What it printed, and 0 or why it failed. */
interface Ended {
  readonly code: number | string;
  readonly output: string;
}

/** Runs it in the client's directory. */
export function go(...args: readonly string[]): Promise<Ended> {
  return goIn(join(project, "clients/go"), ...args);
}

export function goIn(directory: string, ...args: readonly string[]): Promise<Ended> {
  return goWith({}, directory, ...args);
}

/** @param more of the environment */
export function goWith(
  more: Readonly<Record<string, string>>,
  directory: string,
  ...args: readonly string[]
): Promise<Ended> {
  return new Promise((done) => {
    const options = { cwd: directory, env: { ...env, ...more }, maxBuffer: 16 * 1024 ** 2 };
    execFile("go", args, options, (error: ExecFileException | null, stdout, stderr) =>
      done({ code: error === null ? 0 : (error.code ?? `${error.signal}`), output: `${stdout}${stderr}` }),
    );
  });
}
