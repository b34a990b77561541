// Starts a gateway as operators run it, with the launcher's own nginx.conf, and with a probe in every worker that reports how
// long the worker kept all requests waiting.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Nginx } from "../launch/nginx-binary.ts";
import { writeGatewayFiles } from "../launch/nginx-config.ts";
import { readSettings } from "../launch/settings.ts";
import { freePorts } from "../test/fixtures/servers/free-ports.ts";
import { childrenOf } from "./cpu-time.ts";
import { untilAnswers } from "./nginx.ts";
import type { Processes } from "./processes.ts";

/** Figures since the last request for them. */
export interface Stalls {
  /** The longest delay of a light thread after it was due. */
  readonly lateMs: number;
  /** The most CPU that a worker used before it let that thread run. */
  readonly busyMs: number;
  /** How often a thread was more than 5 ms late, and of how many times. */
  readonly over: number;
  readonly looks: number;
}

export interface GatewayOptions {
  /** The gateway's Lua. */
  readonly luaDir: string;
  readonly workers: number;
  readonly controlUrl: string;
  readonly token: string;
  /** Where it keeps its files; a gateway that is started there again has the snapshot of the one before. */
  readonly dataDir: string;
  /** Whether a probe in each worker looks every millisecond how late it is, which costs CPU. */
  readonly findsStalls: boolean;
  /** The room for snapshots, if they may be larger than operators' by default. */
  readonly stateMegabytes?: number;
}

export interface MeasuredGateway {
  readonly url: string;
  /** When its nginx was started, by `performance.now()`. */
  readonly startedAtMs: number;
  /** The process ids of its workers. */
  workers(): readonly number[];
  /** Memory of all workers: now, and at most. */
  memory(): Memory;
  /** Only zeros unless its workers have probes. */
  stalls(): Promise<Stalls>;
  /** The value of every series of this name at /sluice/metrics. */
  metric(name: string): Promise<number[]>;
  stop(): Promise<void>;
}

export interface Memory {
  /** Without what processes share, such as the shared dicts. */
  readonly ownMB: number;
  readonly residentMB: number;
  readonly peakMB: number;
}

/** The response header with the process id of the worker that answered. */
export const workerHeader = "bench-worker";

/** A gateway with 100,000 policies on its disk reads them before it listens. */
const patienceMs = 180_000;

/** Resolves when the gateway serves, whether it has policies or not. */
export async function startGateway(
  processes: Processes,
  nginx: Nginx,
  { luaDir, workers, controlUrl, token, dataDir, findsStalls, stateMegabytes }: GatewayOptions,
): Promise<MeasuredGateway> {
  const [port = 0, privatePort = 0] = await freePorts(2);
  const settings = {
    ...process.env,
    SLUICE_DATA_DIR: dataDir,
    SLUICE_GATEWAY_PORT: `${port}`,
    SLUICE_GATEWAY_PRIVATE_PORT: `${privatePort}`,
    SLUICE_WORKERS: `${workers}`,
    SLUICE_CONTROL_URL: controlUrl,
    SLUICE_GATEWAY_TOKEN: token,
    SLUICE_UPSTREAM: `http://127.0.0.1:${privatePort}`,
  };
  const read = readSettings(settings);
  // The ports change with each start, and the files must not.
  const { config, snapshotDir } = writeGatewayFiles({ ...read, gatewayDir: join(dataDir, "gateway") }, nginx);
  writeFileSync(config, forTheBench(readFileSync(config, "utf8"), { luaDir, findsStalls, stateMegabytes }));
  const directory = dirname(config);
  const startedAtMs = performance.now();
  const { pid, ended, stop } = processes.start({
    name: "nginx",
    command: nginx.path,
    args: ["-p", `${directory}/`, "-e", join(directory, "error.log"), "-c", config, "-g", "daemon off;"],
    env: { ...settings, SLUICE_GATEWAY_DIR: snapshotDir },
  });
  const privateUrl = `http://127.0.0.1:${privatePort}`;
  await Promise.race([untilAnswers(`${privateUrl}/sluice/healthz`, patienceMs), ended]);
  return {
    url: `http://127.0.0.1:${port}`,
    startedAtMs,
    workers: () => childrenOf(pid),
    memory: () => memoryOf(childrenOf(pid)),
    async stalls() {
      const reported = await (await fetch(`${privateUrl}/stalls`)).text();
      const [late = 0, busy = 0, over = 0, looks = 0] = reported.split(" ").map(Number);
      return { lateMs: late * 1000, busyMs: busy * 1000, over, looks };
    },
    async metric(name) {
      const text = await (await fetch(`${privateUrl}/sluice/metrics`)).text();
      return seriesOf(text, name);
    },
    stop,
  };
}

/** @param text in Prometheus' format @returns the values of every series of this name */
export function seriesOf(text: string, name: string): number[] {
  return [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"))].map(([, value]) => Number(value));
}

/** @throws Error if nginx.conf is no longer as this function expects */
function forTheBench(
  config: string,
  {
    luaDir,
    findsStalls,
    stateMegabytes,
  }: Pick<GatewayOptions, "luaDir" | "findsStalls"> & { stateMegabytes: number | undefined },
): string {
  const replace = (text: string, from: RegExp, to: string) => {
    if (text.search(from) < 0) throw new Error(`bench/measured-gateway.ts: expected ${from} in nginx.conf`);
    return text.replace(from, to);
  };
  let edited = replace(
    config,
    /lua_package_path "[^"]*";/,
    `lua_package_path "${luaDir}/?.lua;${join(import.meta.dirname, "lua")}/?.lua;;"; lua_shared_dict stalls 1m;`,
  );
  if (findsStalls) {
    edited = replace(edited, /sluice\.initWorker\(\)/, 'sluice.initWorker() require("stall_probe").start()');
  }
  edited = replace(
    edited,
    /log_by_lua_block \{/,
    // Connections of the bench stay, however many requests they have.
    `keepalive_requests 100000000; keepalive_timeout 1h; add_header ${workerHeader} $pid always; log_by_lua_block {`,
  );
  if (stateMegabytes !== undefined) {
    edited = replace(edited, /lua_shared_dict sluice_state \d+m;/, `lua_shared_dict sluice_state ${stateMegabytes}m;`);
  }
  return replace(
    edited,
    /location = \/sluice\/metrics \{/,
    'location = /stalls { content_by_lua_block { require("stall_probe").tell() } }\n    location = /sluice/metrics {',
  );
}

/** Memory of these processes together. */
export function memoryOf(pids: readonly number[]): Memory {
  const sum = (field: string) =>
    pids.reduce((total, pid) => {
      const kB = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
      return total + Number(kB) / 1024;
    }, 0);
  return { ownMB: sum("RssAnon"), residentMB: sum("VmRSS"), peakMB: sum("VmHWM") };
}
