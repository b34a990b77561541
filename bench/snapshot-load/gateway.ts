// Starts a gateway as operators run it, with the launcher's own nginx.conf, and with a probe in every worker that reports how
// long the worker kept all requests waiting.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { writeGatewayFiles } from "../../launch/nginx-config.ts";
import { readSettings } from "../../launch/settings.ts";
import { childrenOf } from "../cpu-time.ts";
import { freePorts } from "../free-ports.ts";
import { untilAnswers } from "../nginx.ts";
import type { Processes } from "../processes.ts";

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

export interface MeasuredGateway {
  readonly url: string;
  /** Memory of all workers: now, and at most. */
  memory(): { readonly residentMB: number; readonly peakMB: number };
  stalls(): Promise<Stalls>;
  /** The figure of the gateway's own stopwatch; undefined if it has none. */
  longestSliceMs(): Promise<number | undefined>;
}

export async function startGateway(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  workers: number,
  controlPort: number,
): Promise<MeasuredGateway> {
  const [port = 0, privatePort = 0] = await freePorts(2);
  const settings = {
    ...process.env,
    SLUICE_DATA_DIR: processes.directory,
    SLUICE_GATEWAY_PORT: `${port}`,
    SLUICE_GATEWAY_PRIVATE_PORT: `${privatePort}`,
    SLUICE_WORKERS: `${workers}`,
    SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}`,
    SLUICE_GATEWAY_TOKEN: "bench",
    SLUICE_UPSTREAM: `http://127.0.0.1:${privatePort}`,
  };
  const { config, snapshotDir } = writeGatewayFiles(readSettings(settings), nginx);
  writeFileSync(config, withProbe(readFileSync(config, "utf8"), luaDir));
  const directory = dirname(config);
  const { pid, ended } = processes.start({
    name: "nginx",
    command: nginx.path,
    args: ["-p", `${directory}/`, "-e", join(directory, "error.log"), "-c", config, "-g", "daemon off;"],
    env: { ...settings, SLUICE_GATEWAY_DIR: snapshotDir },
  });
  const url = `http://127.0.0.1:${port}`;
  const privateUrl = `http://127.0.0.1:${privatePort}`;
  await Promise.race([untilAnswers(`${privateUrl}/sluice/healthz`), ended]);
  return {
    url,
    memory: () => memoryOf(childrenOf(pid)),
    async stalls() {
      const reported = await (await fetch(`${privateUrl}/stalls`)).text();
      const [late = 0, busy = 0, over = 0, looks = 0] = reported.split(" ").map(Number);
      return { lateMs: late * 1000, busyMs: busy * 1000, over, looks };
    },
    async longestSliceMs() {
      const text = await (await fetch(`${privateUrl}/sluice/metrics`)).text();
      const seconds = /^sluice_snapshot_slice_seconds_max (\S+)$/m.exec(text)?.[1];
      return seconds === undefined ? undefined : Number(seconds) * 1000;
    },
  };
}

/** @throws Error if nginx.conf is no longer as this function expects */
function withProbe(config: string, luaDir: string): string {
  const replace = (text: string, from: string | RegExp, to: string) => {
    const replaced = text.replace(from, to);
    if (replaced === text) throw new Error(`bench/snapshot-load: expected ${from} in nginx.conf`);
    return replaced;
  };
  let edited = replace(
    config,
    /lua_package_path "[^"]*";/,
    `lua_package_path "${luaDir}/?.lua;${join(import.meta.dirname, "../lua")}/?.lua;;"; lua_shared_dict stalls 1m;`,
  );
  edited = replace(edited, "sluice.initWorker()", 'sluice.initWorker() require("stall_probe").start()');
  return replace(
    edited,
    "location = /sluice/metrics {",
    'location = /stalls { content_by_lua_block { require("stall_probe").tell() } }\n    location = /sluice/metrics {',
  );
}

function memoryOf(pids: readonly number[]): { residentMB: number; peakMB: number } {
  const sum = (field: string) =>
    pids.reduce((total, pid) => {
      const kB = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
      return total + Number(kB) / 1024;
    }, 0);
  return { residentMB: sum("VmRSS"), peakMB: sum("VmHWM") };
}
