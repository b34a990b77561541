// --profile: shows where the worker's Lua spends its time, and which traces LuaJIT gives up. Profiling itself costs time, so
// nothing measured here is comparable with the tables.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { NginxInstance } from "./nginx.ts";
import type { Processes } from "./processes.ts";
import type { Variant } from "./variants.ts";
import { runWrk } from "./wrk.ts";

const longest = 40;

export async function profile(
  processes: Processes,
  variant: Variant,
  nginx: NginxInstance,
  connections: number,
  seconds: number,
): Promise<string> {
  await runWrk(processes, nginx.url, variant, variant.connections ?? connections, seconds);
  await fetch(`${nginx.url}/profile-stop`);
  const traces = read(nginx, "traces.txt");
  const aborted = traces.filter((line) => line.includes("abort") || line.includes("NYI"));
  return [
    `Lua samples of ${variant.name}, by function and line:`,
    ...read(nginx, "profile.txt").slice(0, longest),
    "",
    `Traces: ${traces.length - aborted.length} compiled, ${aborted.length} given up:`,
    ...aborted.slice(-longest),
  ].join("\n");
}

function read({ directory }: NginxInstance, name: string): string[] {
  const file = join(directory, name);
  if (!existsSync(file)) return [`${name} was not written: the runtime has no jit.p`];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "");
}
