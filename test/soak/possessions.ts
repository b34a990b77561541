// Reads what processes hold: memory of their own and open sockets, by who opened them. This runs in a thread of its own,
// because reading /proc blocks, and the load and the proxy before Redis must not be blocked.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { isMainThread, parentPort, Worker } from "node:worker_threads";

/** The possessions of all processes in one role, together. */
export interface Possession {
  readonly processes: number;
  /** RssAnon: it excludes files, and the dicts that workers share, whose size is fixed. */
  readonly memoryKb: number;
  /** Connections that others have opened to these processes. */
  readonly clients: number;
  /** Connections that they have opened to Redis, the service, the control plane. */
  readonly servers: number;
  /** Everything else that is open. */
  readonly others: number;
}

function heldBy(pids: readonly number[]): Possession {
  const held = { processes: 0, memoryKb: 0, clients: 0, servers: 0, others: 0 };
  for (const pid of pids) {
    try {
      const memoryKb = Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
      // A process that has ended and is not yet waited for has no memory.
      if (Number.isNaN(memoryKb)) continue;
      const sockets = tcpSocketsOf(pid);
      for (const fd of readdirSync(`/proc/${pid}/fd`)) held[kindOf(`/proc/${pid}/fd/${fd}`, sockets)] += 1;
      held.memoryKb += memoryKb;
      held.processes += 1;
    } catch {
      // The process ended meanwhile.
    }
  }
  return held;
}

type Direction = "clients" | "servers" | "others";

function kindOf(fd: string, sockets: ReadonlyMap<string, Direction>): Direction {
  try {
    return sockets.get(readlinkSync(fd)) ?? "others";
  } catch {
    return "others";
  }
}

const listening = "0A";

/** @returns `socket:[inode]` → who opened it, for all TCP sockets in the process's network namespace */
function tcpSocketsOf(pid: number): Map<string, Direction> {
  const rows = readFileSync(`/proc/${pid}/net/tcp`, "utf8")
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields.length > 9);
  const portOf = (address: string | undefined) => address?.split(":")[1];
  const ports = new Set(rows.filter((fields) => fields[3] === listening).map((fields) => portOf(fields[1])));
  return new Map(
    rows
      .filter((fields) => fields[3] !== listening)
      .map((fields) => [`socket:[${fields[9]}]`, ports.has(portOf(fields[1])) ? "clients" : "servers"]),
  );
}

export interface Looked {
  /** Directories of the gateways, in their order. */
  readonly gateways: readonly string[];
  /** The control plane's process. Absent while it restarts. */
  readonly controlPlane?: number | undefined;
}

export type Possessions = Readonly<Record<string, Possession>>;

function possessionsOf({ gateways, controlPlane }: Looked): Possessions {
  const roles: Record<string, Possession> = {};
  for (const [i, directory] of gateways.entries()) {
    const master = Number(readFileSync(join(directory, "nginx.pid"), "utf8"));
    const workers = readFileSync(`/proc/${master}/task/${master}/children`, "utf8").trim().split(" ").map(Number);
    roles[`gateway ${i + 1}, master`] = heldBy([master]);
    roles[`gateway ${i + 1}, workers`] = heldBy(workers);
  }
  if (controlPlane !== undefined) roles["control plane"] = heldBy([controlPlane]);
  return roles;
}

/** Access to the thread, which answers one request after the other. */
export class Looking {
  readonly #thread = new Worker(import.meta.filename);

  #before: Promise<unknown> = Promise.resolve();

  /** @throws if a gateway is writing its pid file anew at this moment */
  async at(looked: Looked): Promise<Possessions> {
    const answer = this.#before.then(
      () =>
        new Promise<Possessions | string>((resolve) => {
          this.#thread.once("message", resolve);
          this.#thread.postMessage(looked);
        }),
    );
    this.#before = answer;
    const seen = await answer;
    if (typeof seen === "string") throw new Error(seen);
    return seen;
  }

  async stop(): Promise<void> {
    await this.#thread.terminate();
  }
}

if (!isMainThread) {
  parentPort?.on("message", (looked: Looked) => {
    try {
      parentPort?.postMessage(possessionsOf(looked));
    } catch (error) {
      parentPort?.postMessage((error as Error).message);
    }
  });
}
