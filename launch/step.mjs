// Shows the progress of a setup step: a line when it begins, a line every ten seconds, its time if it took more than two
// seconds, and its output only if it fails. This is plain JavaScript because Node 20 runs it before Node 24 is installed.
import { spawn } from "node:child_process";

/** @param {string} line */
export function say(line) {
  process.stdout.write(`sluice: ${line}\n`);
}

/** A failure whose message is all that the user needs: no stack trace is printed for it. */
export class SetupError extends Error {}

/** Ends the process after a failed setup. Prints only the message if it is meant for the user. @param {unknown} error */
export function fail(error) {
  if (error instanceof SetupError) process.stderr.write(`sluice: ${error.message}\n`);
  else process.stderr.write(`sluice: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exit(1);
}

/**
 * Runs one command. A signal during the command ends its whole process group and then this process; a command that must not
 * be interrupted (dpkg in the middle of its work) is waited for instead.
 * @param {string} title what the user reads, e.g. "installing npm dependencies"
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, uninterruptible?: boolean, beforeExit?: () => void }} [options]
 * @returns {Promise<{ code: number, output: string }>} the exit code and the last 16 kB of what it printed
 */
export async function runStep(title, command, args, options = {}) {
  say(`${title} …`);
  const startedAt = Date.now();
  const seconds = () => ((Date.now() - startedAt) / 1000).toFixed(1);
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text) => {
      output = (output + text).slice(-16384);
    });
  }
  const ticker = setInterval(() => say(`${title} … ${Math.round((Date.now() - startedAt) / 1000)} s`), 10_000);
  /** @type {NodeJS.Signals | undefined} */
  let stoppedBy;
  /** @param {NodeJS.Signals} signal */
  const onSignal = (signal) => {
    if (stoppedBy !== undefined) return;
    stoppedBy = signal;
    if (options.uninterruptible) say(`stopping once ${command} has finished …`);
    else endGroup(child.pid);
  };
  for (const signal of stopSignals) process.on(signal, onSignal);
  const code = await new Promise((resolve, reject) => {
    child.on("error", (error) => reject(new SetupError(`${title}: cannot run ${command}: ${error.message}`)));
    child.on("close", (exitCode) => resolve(exitCode ?? 1));
  }).finally(() => {
    clearInterval(ticker);
    for (const signal of stopSignals) process.off(signal, onSignal);
  });
  if (stoppedBy !== undefined) {
    options.beforeExit?.();
    process.exit(stoppedBy === "SIGINT" ? 130 : 143);
  }
  if (code === 0 && Date.now() - startedAt > 2000) say(`${title} … done in ${seconds()} s`);
  return { code, output };
}

/** @type {NodeJS.Signals[]} */
const stopSignals = ["SIGINT", "SIGTERM", "SIGHUP"];

/** @param {number | undefined} pid of the first process in the group */
function endGroup(pid) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGTERM");
  } catch {
    return;
  }
  setTimeout(() => {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // The group ended in time.
    }
  }, 5000).unref();
}
