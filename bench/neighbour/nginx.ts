// Starts an nginx with an operator's own Lua, with or without Sluice.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { childrenOf } from "../cpu-time.ts";
import { untilAnswers } from "../nginx.ts";
import { snapshotOf } from "../policies.ts";
import type { Processes, Running } from "../processes.ts";
import { policiesInForce } from "./policies.ts";

const template = join(import.meta.dirname, "nginx.conf");

export interface Place {
  readonly nginx: Nginx;
  readonly port: number;
  readonly redisPort: number;
  /** A port on which nothing listens: the gateway runs without its control plane. */
  readonly closedPort: number;
}

export interface House {
  readonly url: string;
  readonly workerPids: readonly number[];
  stop(): Promise<void>;
}

/** @param luaDir the gateway's Lua; undefined: an nginx without Sluice */
export async function startHouse(
  processes: Processes,
  name: string,
  luaDir: string | undefined,
  place: Place,
): Promise<House> {
  const directory = join(processes.directory, name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "snapshot.json"), snapshotOf(policiesInForce));
  writeFileSync(join(directory, "nginx.conf"), render(directory, luaDir, place));
  const { pid, ended, stop }: Running = processes.start({
    name: `nginx ${name}`,
    command: place.nginx.path,
    args: ["-p", `${directory}/`, "-e", "error.log", "-c", join(directory, "nginx.conf"), "-g", "daemon off;"],
    env: {
      ...process.env,
      SLUICE_GATEWAY_DIR: directory,
      SLUICE_GATEWAY_ID: `bench-${name}`,
      SLUICE_GATEWAY_TOKEN: "bench",
      SLUICE_CONTROL_URL: `http://127.0.0.1:${place.closedPort}`,
      SLUICE_REDIS_URL: `redis://127.0.0.1:${place.redisPort}`,
      BENCH_REDIS_PORT: String(place.redisPort),
    },
  });
  const url = `http://127.0.0.1:${place.port}`;
  await Promise.race([untilAnswers(`${url}/bare`), ended]);
  return { url, workerPids: childrenOf(pid), stop };
}

function render(directory: string, luaDir: string | undefined, { nginx, port }: Place): string {
  const withSluice = (lua: string) => (luaDir === undefined ? "" : lua);
  const values: Record<string, string> = {
    MODULES: nginx.modules.map((file) => `load_module ${file};`).join(" "),
    // If root starts nginx, its workers would run as nobody, who may not write to the directory.
    USER: process.getuid?.() === 0 ? "user root;" : "",
    DIR: directory,
    PORT: String(port),
    SLUICE_LUA_DIR: luaDir ?? directory,
    BENCH_LUA_DIR: join(import.meta.dirname, "../lua"),
    INIT: withSluice(`sluice = require("sluice") sluice.init()`),
    INIT_WORKER: withSluice("sluice.initWorker()"),
    ACCESS: withSluice("access_by_lua_block { sluice.access() } log_by_lua_block { sluice.log() }"),
  };
  return readFileSync(template, "utf8").replace(/\$\{([A-Z_]+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) {
      throw new Error(`bench/neighbour/nginx.conf: expected one of ${Object.keys(values)}, got ${name}`);
    }
    return value;
  });
}
