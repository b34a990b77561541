// Reads from /proc how much CPU processes have used: the scheduler's own count in nanoseconds (schedstat) if the kernel
// keeps it, and otherwise utime + stime of /proc/PID/stat, which is the same time cut to whole 10 ms.
import { existsSync, readdirSync, readFileSync } from "node:fs";

const hasSchedstat = existsSync("/proc/self/schedstat");
/** The tick of /proc/PID/stat; Linux has had 100 a second on every architecture that runs Node. */
const tickUs = 10_000;

export const cpuSource = hasSchedstat ? "schedstat (ns)" : "utime+stime (10 ms)";

/** Returns user and system time together, of all threads of these processes. */
export function cpuUs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (hasSchedstat ? scheduledUs(pid) : tickedUs(pid)), 0);
}

function scheduledUs(pid: number): number {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
  }
  return ns / 1000;
}

function tickedUs(pid: number): number {
  // The name, in brackets, may contain spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * tickUs;
}

/** Ticks of the whole machine since it started: those that its host gave to others while it wanted to run, and all. */
export function machineCpu(): { readonly stealTicks: number; readonly allTicks: number } {
  const line = readFileSync("/proc/stat", "utf8").split("\n")[0] ?? "";
  const ticks = line.split(/\s+/).slice(1, 9).map(Number);
  return { stealTicks: ticks[7] ?? 0, allTicks: ticks.reduce((sum, value) => sum + value, 0) };
}

/** Returns the worker processes of an nginx master. */
export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return children
    .split(" ")
    .filter((text) => text !== "")
    .map(Number);
}
