// A network namespace that a pair of virtual interfaces joins to this machine, with a firewall that drops packets.

import { execFile, execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";

let count = 0;

export class Namespace {
  readonly #name = `sluice-${process.pid}-${++count}`;
  readonly #outside = `sl${process.pid}-${count}`;
  readonly #network = `10.213.${process.pid % 256}`;
  readonly #first = count * 4;

  /** This machine's address as seen from inside. */
  get hostAddress(): string {
    return `${this.#network}.${this.#first + 1}`;
  }

  /** The address of the inside. */
  get address(): string {
    return `${this.#network}.${this.#first + 2}`;
  }

  /** What must precede a command to run it inside. */
  get command(): readonly string[] {
    return ["ip", "netns", "exec", this.#name];
  }

  static create(): Namespace {
    if (count === 0) removeLeftBehind();
    const namespace = new Namespace();
    try {
      namespace.#create();
    } catch (error) {
      namespace.remove();
      throw error;
    }
    return namespace;
  }

  #create(): void {
    const inside = "outside";
    ip("netns", "add", this.#name);
    ip("link", "add", this.#outside, "type", "veth", "peer", "name", inside, "netns", this.#name);
    ip("addr", "add", `${this.hostAddress}/30`, "dev", this.#outside);
    ip("link", "set", this.#outside, "up");
    this.#run("ip", "addr", "add", `${this.address}/30`, "dev", inside);
    for (const device of ["lo", inside]) this.#run("ip", "link", "set", device, "up");
  }

  /** Drops packets to and from these ports: no end is informed, and no connection is refused. */
  async drop(...ports: readonly number[]): Promise<void> {
    const either = ["-p", "tcp", "-m", "multiport", "--ports", ports.join(",")];
    for (const chain of ["INPUT", "OUTPUT"]) await this.#firewall("-A", chain, ...either, "-j", "DROP");
  }

  /** Lets all packets pass again. */
  pass(): Promise<void> {
    return this.#firewall("-F");
  }

  /** Runs iptables without blocking this process, which also runs the load and the proxy. */
  async #firewall(...args: readonly string[]): Promise<void> {
    const [command, ...rest] = [...this.command, "iptables", "-w", ...args] as [string, ...string[]];
    await promisify(execFile)(command, rest);
  }

  #run(...args: readonly string[]): void {
    const [command, ...rest] = [...this.command, ...args] as [string, ...string[]];
    execFileSync(command, rest, { stdio: "pipe" });
  }

  remove(): void {
    for (const args of [
      ["link", "del", this.#outside],
      ["netns", "del", this.#name],
    ]) {
      try {
        ip(...args);
      } catch {
        // The namespace was never made.
      }
    }
  }
}

/** Removes namespaces of processes that were killed. */
function removeLeftBehind(): void {
  const names = execFileSync("ip", ["netns", "list"], { encoding: "utf8" });
  for (const [name, pid] of names.matchAll(/^sluice-(\d+)-\d+/gm)) {
    if (!existsSync(`/proc/${pid}`)) ip("netns", "del", name);
  }
}

/** @returns why no namespace can be made here, or undefined if one can */
export async function namespacesMissing(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "needs root";
  try {
    const namespace = Namespace.create();
    try {
      await namespace.drop(1);
    } finally {
      namespace.remove();
    }
    return undefined;
  } catch (error) {
    return `needs network namespaces with iptables: ${String((error as Error).message).split("\n")[0]}`;
  }
}

function ip(...args: readonly string[]): void {
  execFileSync("ip", args, { stdio: "pipe" });
}
