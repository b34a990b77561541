// Runs wrk against one target; wrk-report.lua makes it send prepared requests and report in JSON.
import { join } from "node:path";
import type { Processes } from "./processes.ts";

export interface Load {
  readonly requests: number;
  readonly durationUs: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** Answers with a status of 400 or above. */
  readonly statusErrors: number;
  readonly socketErrors: number;
}

export interface Target {
  readonly path: string;
  /** `one`: the same request always; `many`: 100,000 keys; `hosts`: 10 paths on each of 1,000 hosts. */
  readonly keys: "one" | "many" | "hosts";
}

const usualPatienceMs = 2_000;
const script = join(import.meta.dirname, "wrk-report.lua");

/** @param patienceMs a request that takes longer is a socket error */
export async function runWrk(
  processes: Processes,
  url: string,
  { path, keys }: Target,
  connections: number,
  seconds: number,
  patienceMs = usualPatienceMs,
): Promise<Load> {
  const load = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", `${patienceMs / 1_000}s`];
  const args = [...load, "--latency", "-s", script, url, "--", path, keys];
  const output = await processes.start({ name: "wrk", command: "wrk", args }).ended;
  const line = output.split("\n").find((text) => text.startsWith("{"));
  if (line === undefined) throw new Error(`wrk: expected a line of JSON, got ${output.slice(0, 500)}`);
  return JSON.parse(line) as Load;
}
