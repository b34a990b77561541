// Runs the parts of one launcher, which start and stop together: a signal ends all of them, a part that ends by itself ends
// the others, and no part survives the launcher, however it ends. A part with clients finishes their requests first, while
// the parts that it needs still run. A second signal ends everything at once.
//
// A part that the others can do without for a while is started again instead, once all have been ready.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { createInterface } from "node:readline";
import { findProgram } from "./nginx-binary.ts";
import { say } from "./step.mjs";

export interface Part {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /**
   * The signal on which the part ends when its requests are answered, and the time that it has for that. The other parts
   * continue meanwhile.
   */
  readonly drain?: { readonly signal: NodeJS.Signals; readonly withinMs: number };
  /** The file to which the part writes what it does not print. It is read when the part fails. */
  readonly logFile?: string;
  /** Whether the others go on without it, until it has been started again. */
  readonly restarts?: boolean;
  /** Called with every line that the part prints. */
  readonly onLine?: (line: string) => void;
}

interface RunningPart {
  readonly part: Part;
  readonly child: ChildProcess;
  readonly lastLines: string[];
  readonly logSizeBefore: number;
  readonly startedAtMs: number;
  /** Resolves with a description of how the part ended. */
  readonly ended: Promise<string>;
  /** Whether the part has printed which variable it cannot accept. Then nothing more is printed when it ends. */
  hasRefusedSetting: boolean;
}

/** Longer than the time that the control plane gives its own connections. */
const patienceMs = 7000;
/** Under npm, one Ctrl-C arrives twice, from the terminal and from npm: only a later signal is a second one. */
const sameKeystrokeMs = 300;
const keptLines = 20;
const mostReadOfLog = 65_536;
/** Doubled each time that it ends within a minute. */
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;
const steadyMs = 60_000;
const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
/** The form in which both parts print it, nginx behind its own words. A client's text never begins a line. */
const refusedSetting = /^(?:nginx: \[[a-z]+\] .*?)?(sluice: SLUICE_[A-Z0-9_]+: expected .+)/;
const stackTrace = /^(stack traceback:|\t)/;

export class Processes {
  readonly #running = new Set<RunningPart>();
  readonly #setpriv = findProgram("setpriv");
  #stopping: Promise<void> | undefined;
  #stopAskedAtMs = 0;
  #areReady = false;
  #pauseMs = firstPauseMs;

  constructor() {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => this.#onSignal(signal));
    // npm or the bootstrap, which started this process, has ended. This is not a second signal, whatever came before.
    process.on("disconnect", () => this.#stopAndExit());
    process.channel?.unref();
    // If the terminal is gone, a failed write must not end the launcher before its parts.
    for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
    process.on("exit", () => {
      for (const { child } of this.#running) signalGroup(child, "SIGKILL");
    });
  }

  start(part: Part): void {
    // If the launcher is already stopping, no further part may start.
    if (this.#stopping !== undefined) return;
    // Each part gets its own process group: so Ctrl-C reaches only the launcher, and processes that a part has forked can be
    // ended with it. If the launcher is killed, the kernel sends the part the signal that setpriv set up (nginx's master
    // then ends its workers).
    const ties = this.#setpriv === undefined ? [] : [this.#setpriv, "--pdeathsig", "TERM", "--"];
    const [command = part.command, ...args] = [...ties, part.command, ...part.args];
    const logSizeBefore = sizeOf(part.logFile);
    const child = spawn(command, args, { env: part.env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const ended = new Promise<string>((resolve) => {
      child.on("error", (error) => resolve(`cannot be started: ${error.message}`));
      // Forked processes may outlive the part and keep its pipes open, as nginx's workers do when their master is killed.
      child.on("exit", () => signalGroup(child, "SIGKILL"));
      child.on("close", (code, signal) => resolve(signal === null ? `exit code ${code}` : `killed by ${signal}`));
    });
    const running: RunningPart = {
      part,
      child,
      lastLines: [],
      logSizeBefore,
      startedAtMs: Date.now(),
      ended,
      hasRefusedSetting: false,
    };
    for (const [from, to] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ] as const) {
      createInterface({ input: from }).on("line", (line) => this.#onLine(running, line, to));
    }
    this.#running.add(running);
    void ended.then((how) => {
      this.#running.delete(running);
      if (this.#stopping === undefined) void this.#onUnexpectedEnd(running, how);
    });
  }

  /** From now on, a part that may be started again is, if it ends, whatever it says: it has accepted its settings once. */
  ready(): void {
    this.#areReady = true;
  }

  /** Ends every part. Parts with clients come first, and end when their requests are answered or their time is over. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopInOrder([...this.#running]);
    return this.#stopping;
  }

  async #stopInOrder(parts: readonly RunningPart[]): Promise<void> {
    await Promise.all(parts.map((running) => drained(running)));
    await Promise.all(parts.map((running) => terminated(running)));
  }

  #onSignal(signal: keyof typeof exitCodes): void {
    const now = Date.now();
    if (this.#stopAskedAtMs === 0) {
      this.#stopAskedAtMs = now;
      const drains = [...this.#running].map(({ part }) => part.drain?.withinMs ?? 0);
      const longestMs = Math.max(0, ...drains);
      if (longestMs > 0) {
        say(
          `stopping: what is under way is finished, for at most ${longestMs / 1000} s (a second signal ends it at once)`,
        );
      }
      this.#stopAndExit();
    } else if (now - this.#stopAskedAtMs > sameKeystrokeMs) {
      process.stderr.write("sluice: ended at once, with whatever was under way\n");
      // The exit handler kills every part.
      process.exit(exitCodes[signal]);
    }
  }

  #stopAndExit(): void {
    void this.stop().then(() => process.exit(0));
  }

  #onLine(running: RunningPart, line: string, to: NodeJS.WritableStream): void {
    const refusal = this.#areReady ? undefined : refusedSetting.exec(line)?.[1];
    // nginx adds a stack trace of its Lua to the message.
    if (!this.#areReady && running.hasRefusedSetting && stackTrace.test(line)) return;
    if (refusal !== undefined) running.hasRefusedSetting = true;
    to.write(`${refusal ?? line}\n`);
    running.part.onLine?.(line);
    running.lastLines.push(line);
    if (running.lastLines.length > keptLines) running.lastLines.shift();
  }

  async #onUnexpectedEnd(
    { part, lastLines, logSizeBefore, startedAtMs, hasRefusedSetting }: RunningPart,
    how: string,
  ): Promise<void> {
    if (hasRefusedSetting && !this.#areReady) {
      await this.stop();
      process.exit(1);
    }
    // nginx also writes to its log what it prints when it cannot start.
    const logged = linesAfter(part.logFile, logSizeBefore);
    const lines = (logged.length > 0 ? logged : lastLines).slice(-keptLines);
    const reported =
      lines.length === 0 ? "it printed nothing" : `its last lines:\n${lines.map((line) => `  ${line}`).join("\n")}`;
    // Printed before the other parts are stopped, which takes a while if they serve clients.
    process.stderr.write(`sluice: ${part.name} ended unexpectedly (${how}); ${reported}\n`);
    if (this.#areReady && part.restarts === true) {
      this.#pauseMs = Date.now() - startedAtMs > steadyMs ? firstPauseMs : this.#pauseMs;
      process.stderr.write(
        `sluice: ${part.name} is started again in ${this.#pauseMs / 1000} s; the others go on without it\n`,
      );
      setTimeout(() => this.start(part), this.#pauseMs);
      this.#pauseMs = Math.min(2 * this.#pauseMs, longestPauseMs);
      return;
    }
    await this.stop();
    process.exit(1);
  }
}

/** @returns when the part has ended, or the time for that is over */
async function drained({ part, child, ended }: RunningPart): Promise<void> {
  if (part.drain === undefined || part.drain.withinMs === 0) return;
  child.kill(part.drain.signal);
  if (await endsWithin(ended, part.drain.withinMs)) return;
  process.stderr.write(
    `sluice: ${part.name} was not done with its requests after ${part.drain.withinMs / 1000} s; they are cut\n`,
  );
}

async function terminated({ part, child, ended }: RunningPart): Promise<void> {
  child.kill("SIGTERM");
  if (await endsWithin(ended, patienceMs)) return;
  process.stderr.write(`sluice: ${part.name} did not stop in time; killed\n`);
  signalGroup(child, "SIGKILL");
  await ended;
}

function endsWithin(end: Promise<unknown>, withinMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const patience = setTimeout(() => resolve(false), withinMs);
    void end.then(() => {
      clearTimeout(patience);
      resolve(true);
    });
  });
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // No process of the group is left.
  }
}

function sizeOf(file: string | undefined): number {
  return file === undefined ? 0 : (statSync(file, { throwIfNoEntry: false })?.size ?? 0);
}

/** A log that nobody rotates may be larger than the memory. */
function linesAfter(file: string | undefined, size: number): string[] {
  const end = sizeOf(file);
  if (file === undefined || end <= size) return [];
  const bytes = Buffer.alloc(Math.min(end - size, mostReadOfLog));
  const log = openSync(file, "r");
  try {
    const read = readSync(log, bytes, 0, bytes.length, end - bytes.length);
    const lines = bytes.toString("utf8", 0, read).trimEnd().split("\n");
    // The first one is the end of a line.
    return bytes.length < end - size ? lines.slice(1) : lines;
  } finally {
    closeSync(log);
  }
}
