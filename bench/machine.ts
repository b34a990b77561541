// Describes the machine on which the figures were measured, so that readers can see whether theirs may differ.
import { spawnSync } from "node:child_process";
import { cpus, loadavg, release, totalmem } from "node:os";
import { cpuSource } from "./cpu-time.ts";

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly kernel: string;
  readonly nginx: string;
  readonly luajit: string;
  readonly redis: string;
  readonly wrk: string;
  readonly node: string;
  readonly cpuTimeFrom: string;
  /** Load average of the last minute before the bench began: 0 on a quiet machine. */
  readonly loadBefore: number;
}

export function describeMachine(nginxPath: string): Omit<Machine, "luajit"> {
  const processors = cpus();
  return {
    cpu: processors[0]?.model ?? "unknown",
    cores: processors.length,
    memoryGib: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    nginx: firstMatch(nginxPath, ["-v"], /version: (\S+)/),
    redis: firstMatch("redis-server", ["--version"], /v=(\S+)/),
    wrk: firstMatch("wrk", ["--version"], /wrk (\S+)/),
    node: process.version,
    cpuTimeFrom: cpuSource,
    loadBefore: loadavg()[0] ?? 0,
  };
}

function firstMatch(program: string, args: readonly string[], pattern: RegExp): string {
  const { stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  return pattern.exec(`${stdout}${stderr}`)?.[1] ?? "unknown";
}
