// Starts an nginx from bench/nginx.conf with one instance's workers, headers and policies, and sends requests to it.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Nginx } from "../launch/nginx-binary.ts";
import { childrenOf } from "./cpu-time.ts";
import { snapshotOf } from "./policies.ts";
import type { Processes } from "./processes.ts";
import type { Instance } from "./variants.ts";

const template = join(import.meta.dirname, "nginx.conf");
const usualPatienceMs = 15_000;

export interface Place {
  readonly nginx: Nginx;
  /** The directory to which the gateway's Lua was copied: a build in the meantime must not change what is measured. */
  readonly luaDir: string;
  readonly port: number;
  readonly redisPort: number;
  /** A port on which nothing listens: the gateway runs without its control plane. */
  readonly closedPort: number;
  readonly profile: boolean;
  /** How long nginx may take until it answers. Absent: some seconds. */
  readonly patienceMs?: number;
  /** nginx is its own worker: a tool that watches it cannot follow it into another process. */
  readonly isAlone?: true;
}

export interface NginxInstance {
  readonly url: string;
  readonly workerPids: readonly number[];
  readonly directory: string;
  readonly errorLog: string;
  stop(): Promise<void>;
  /** Returns the decisions of all policies so far, by result. */
  decisions(): Promise<Record<string, number>>;
}

export async function startNginx(
  processes: Processes,
  name: string,
  instance: Instance,
  place: Place,
): Promise<NginxInstance> {
  const directory = join(processes.directory, name);
  const errorLog = join(directory, "error.log");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "snapshot.json"), snapshotOf(instance.policies));
  writeFileSync(join(directory, "nginx.conf"), render(directory, instance, place));

  const alone = place.isAlone === true ? " master_process off;" : "";
  const { pid, ended, stop } = processes.start({
    name: `nginx ${name}`,
    command: place.nginx.path,
    args: ["-p", `${directory}/`, "-e", errorLog, "-c", join(directory, "nginx.conf"), "-g", `daemon off;${alone}`],
    env: {
      ...process.env,
      SLUICE_GATEWAY_DIR: directory,
      SLUICE_GATEWAY_ID: `bench-${name}`,
      SLUICE_GATEWAY_TOKEN: "bench",
      SLUICE_CONTROL_URL: `http://127.0.0.1:${place.closedPort}`,
      SLUICE_REDIS_URL: `redis://127.0.0.1:${place.redisPort}`,
      SLUICE_HEADERS: instance.headers,
      BENCH_REDIS_PORT: String(place.redisPort),
    },
  });
  const url = `http://127.0.0.1:${place.port}`;
  await Promise.race([untilAnswers(`${url}/bare`, place.patienceMs), ended]);
  const workerPids = place.isAlone === true ? [pid] : childrenOf(pid);
  if (workerPids.length !== instance.workers) {
    throw new Error(`nginx ${name}: expected ${instance.workers} workers, got ${workerPids.length}`);
  }
  return { url, workerPids, directory, errorLog, stop, decisions: () => readDecisions(url) };
}

function render(directory: string, instance: Instance, place: Place): string {
  const values: Record<string, string> = {
    MODULES: place.nginx.modules.map((file) => `load_module ${file};`).join(" "),
    // If root starts nginx, its workers would run as nobody, who may not write to the directory.
    USER: process.getuid?.() === 0 ? "user root;" : "",
    WORKERS: String(instance.workers),
    DIR: directory,
    PORT: String(place.port),
    SLUICE_LUA_DIR: place.luaDir,
    BENCH_LUA_DIR: join(import.meta.dirname, "lua"),
    PROFILER: place.profile ? `require("profiler").start("${directory}")` : "",
  };
  return readFileSync(template, "utf8").replace(/\$\{([A-Z_]+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`bench/nginx.conf: expected one of ${Object.keys(values)}, got ${name}`);
    return value;
  });
}

export async function untilAnswers(url: string, patienceMs = usualPatienceMs): Promise<void> {
  const giveUpAt = Date.now() + patienceMs;
  for (;;) {
    try {
      if ((await fetch(url)).ok) return;
    } catch (error) {
      if (Date.now() > giveUpAt) throw error;
    }
    if (Date.now() > giveUpAt) throw new Error(`${url}: expected 200 within ${patienceMs} ms`);
    await sleep(20);
  }
}

async function readDecisions(url: string): Promise<Record<string, number>> {
  const totals: Record<string, number> = {};
  const text = await (await fetch(`${url}/metrics`)).text();
  for (const [, result = "", count] of text.matchAll(/^sluice_decisions_total\{.*result="([^"]+)"\} (\d+)/gm)) {
    totals[result] = (totals[result] ?? 0) + Number(count);
  }
  for (const [, count] of text.matchAll(/^sluice_degraded_decisions_total\{.*\} (\d+)/gm)) {
    totals["degraded"] = (totals["degraded"] ?? 0) + Number(count);
  }
  return totals;
}
