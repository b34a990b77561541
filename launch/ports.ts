// Checks before anything starts whether the ports are free, and finds which process holds one that is not.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:net";
import { basename } from "node:path";
import { SetupError } from "./step.mjs";

export interface WantedPort {
  readonly variable: string;
  readonly host: string;
  readonly port: number;
}

/** @throws SetupError with each port that cannot be used, its variable and, if it is known, the process that holds it */
export async function requireFreePorts(wanted: readonly WantedPort[]): Promise<void> {
  const problems: string[] = [];
  for (const [index, { variable, host, port }] of wanted.entries()) {
    const twin = wanted.slice(0, index).find((other) => other.port === port);
    if (twin !== undefined) {
      problems.push(`port ${port} is given to both ${twin.variable} and ${variable}; set one of them differently`);
      continue;
    }
    const code = await tryListening(host, port);
    if (code === undefined) continue;
    if (code === "EADDRINUSE") {
      const holder = holderOf(port);
      const by = holder === undefined ? "" : ` by ${holder}`;
      problems.push(`port ${port} (${variable}) is taken${by}; stop it or set ${variable}`);
    } else if (code === "EACCES") {
      problems.push(`port ${port} (${variable}) needs root; set ${variable} to 1024 or above`);
    } else {
      problems.push(`port ${port} (${variable}) on ${host} cannot be listened on: ${code}`);
    }
  }
  if (problems.length > 0) throw new SetupError(problems.join("\nsluice: "));
}

/** Returns the error's code, or undefined when the port is free. */
function tryListening(host: string, port: number): Promise<string | undefined> {
  return new Promise((done) => {
    const server = createServer();
    server.on("error", (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => done(undefined)));
  });
}

/** Returns `name (pid N)` of the listening process; undefined outside Linux and for another user's process. */
function holderOf(port: number): string | undefined {
  const sockets = new Set<string>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    for (const line of readLines(table).slice(1)) {
      const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
      const isListening = state === "0A";
      if (isListening && Number.parseInt(local?.split(":")[1] ?? "", 16) === port) sockets.add(`socket:[${inode}]`);
    }
  }
  if (sockets.size === 0) return undefined;
  // nginx's master and workers share the socket. The master has the lowest pid, and is the one to stop.
  const pids = list("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);
  const pid = pids.find((candidate) => holdsAny(candidate, sockets));
  return pid === undefined ? undefined : `${nameOf(pid)} (pid ${pid})`;
}

function holdsAny(pid: number, sockets: ReadonlySet<string>): boolean {
  return list(`/proc/${pid}/fd`).some((fd) => {
    try {
      return sockets.has(readlinkSync(`/proc/${pid}/fd/${fd}`));
    } catch {
      return false;
    }
  });
}

/** Node names its main thread "MainThread", so the name of its script is more helpful. */
function nameOf(pid: number): string {
  const name = readLines(`/proc/${pid}/comm`)[0] ?? "";
  if (!name.endsWith("MainThread") && name !== "node") return name;
  const script = (readLines(`/proc/${pid}/cmdline`)[0] ?? "")
    .split("\0")
    .slice(1)
    .find((part) => /^[^-]/.test(part));
  return script === undefined ? "node" : `node ${basename(script)}`;
}

function list(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function readLines(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split("\n");
  } catch {
    return [];
  }
}
