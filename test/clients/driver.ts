// A client's driver (clients/README.md) as a program of this test: one JSON line goes in, one comes back.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

export interface Result {
  readonly allowed?: boolean;
  readonly source?: string;
  readonly error?: { readonly code?: string; readonly status?: number; readonly message?: string };
  readonly [field: string]: unknown;
}

export interface Load {
  readonly calls: number;
  readonly allowed: number;
  readonly refused: number;
  readonly errors: number;
  readonly failures: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export class Driver {
  readonly child: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting: ((line: string | undefined) => void)[] = [];
  #stderr = "";
  #hasEnded = false;

  constructor({ command, args }: Command) {
    // setpriv becomes the program, which ends with this process.
    this.child = spawn("setpriv", ["--pdeathsig", "KILL", command, ...args], { stdio: ["pipe", "pipe", "pipe"] });
    this.#lines = createInterface({ input: this.child.stdout as NodeJS.ReadableStream });
    this.#lines.on("line", (line) => this.#waiting.shift()?.(line));
    this.#lines.on("close", () => {
      this.#hasEnded = true;
      for (const resolve of this.#waiting.splice(0)) resolve(undefined);
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    this.child.stdin?.on("error", () => undefined);
  }

  async client(options: object): Promise<void> {
    const answer = await this.say({ client: options });
    if (answer["error"] !== undefined) throw new Error(String(answer["error"]));
  }

  async do(...calls: readonly object[]): Promise<Result[]> {
    return (await this.say({ do: calls }))["results"] as Result[];
  }

  async load(load: object): Promise<Load> {
    return (await this.say({ load })) as unknown as Load;
  }

  /** @throws an error with what the driver wrote to stderr if it ends */
  async say(line: object): Promise<Record<string, unknown>> {
    const answered = new Promise<string | undefined>((resolve) => {
      if (this.#hasEnded) resolve(undefined);
      else this.#waiting.push(resolve);
    });
    this.child.stdin?.write(`${oneLine(line)}\n`);
    const answer = await answered;
    if (answer === undefined) throw new Error(`the driver ended: ${this.#stderr}`);
    return JSON.parse(answer) as Record<string, unknown>;
  }

  get pid(): number {
    return this.child.pid as number;
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  async stop(): Promise<void> {
    if (!this.isRunning) return;
    const ended = once(this.child, "exit");
    this.child.stdin?.end();
    const killer = setTimeout(() => this.child.kill("SIGKILL"), 30_000);
    await ended;
    clearTimeout(killer);
  }
}

/** Some readers of lines end them at these two characters, too. */
function oneLine(value: object): string {
  return JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}
