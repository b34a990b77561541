// Runs wrk against one variant; wrk-report.lua makes it send prepared requests and report in JSON.
import { join } from "node:path";
import type { Processes } from "./processes.ts";
import type { Variant } from "./variants.ts";

export interface Load {
  readonly requests: number;
  readonly durationUs: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** Answers of 400 and above. */
  readonly statusErrors: number;
  readonly socketErrors: number;
}

const script = join(import.meta.dirname, "wrk-report.lua");

export async function runWrk(
  processes: Processes,
  url: string,
  { path, keys }: Variant,
  connections: number,
  seconds: number,
): Promise<Load> {
  const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "--latency", "-s", script, url, "--", path, keys];
  const output = await processes.start({ name: "wrk", command: "wrk", args }).ended;
  const line = output.split("\n").find((text) => text.startsWith("{"));
  if (line === undefined) throw new Error(`wrk: expected a line of JSON, got ${output.slice(0, 500)}`);
  return JSON.parse(line) as Load;
}
