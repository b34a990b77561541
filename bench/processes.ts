// The bench's own nginxes, Redis and wrk, and its temporary directory: none of them outlives it, however it ends.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram } from "../launch/nginx-binary.ts";

const patienceMs = 3000;

export interface Program {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

export interface Running {
  readonly pid: number;
  /** Resolves with what it printed to standard output; rejects unless it ended with exit code 0. */
  readonly ended: Promise<string>;
  /** Asks it to end, kills it after three seconds, and waits until it has ended. */
  stop(): Promise<void>;
}

export class Processes {
  readonly directory = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  readonly #running = new Map<ChildProcess, Promise<unknown>>();
  readonly #setpriv = findProgram("setpriv");

  constructor() {
    for (const [signal, code] of [
      ["SIGINT", 130],
      ["SIGTERM", 143],
      ["SIGHUP", 129],
    ] as const) {
      process.once(signal, () => void this.stop().finally(() => process.exit(code)));
    }
    process.on("exit", () => {
      for (const child of this.#running.keys()) signalGroup(child, "SIGKILL");
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  start({ name, command, args, env }: Program): Running {
    // The program has its own group, which Ctrl-C does not reach and which can be killed whole. If the bench is killed, the
    // kernel sends the signal that setpriv requested. setpriv becomes the program, so the pid is the program's.
    const ties = this.#setpriv === undefined ? [] : [this.#setpriv, "--pdeathsig", "TERM", "--"];
    const [first = command, ...rest] = [...ties, command, ...args];
    const child = spawn(first, rest, { env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    let printed = "";
    let errors = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors = (errors + text).slice(-4096);
    });
    const ended = new Promise<string>((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        if (code === 0) resolve(printed);
        else
          reject(new Error(`${name} ended with ${signal ?? `exit code ${code}`}: ${errors || printed.slice(-4096)}`));
      });
    });
    // A caller that awaits `ended` gets the failure; otherwise the next check of the program fails.
    const settled = ended.then(
      () => this.#running.delete(child),
      () => this.#running.delete(child),
    );
    this.#running.set(child, settled);
    return { pid: child.pid ?? 0, ended, stop: () => stop(child, settled) };
  }

  /** Ends everything that runs. */
  async stop(): Promise<void> {
    await Promise.all([...this.#running].map(([child, settled]) => stop(child, settled)));
  }
}

async function stop(child: ChildProcess, settled: Promise<unknown>): Promise<void> {
  child.kill("SIGTERM");
  const killer = setTimeout(() => signalGroup(child, "SIGKILL"), patienceMs);
  await settled;
  clearTimeout(killer);
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // No process of the group is left.
  }
}
