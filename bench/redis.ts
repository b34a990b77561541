// Starts one Redis for all variants: fresh, on loopback, without writing to disk.
import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { Processes } from "./processes.ts";

const run = promisify(execFile);
const patienceMs = 5000;

export interface Redis {
  readonly pid: number;
  readonly port: number;
  /** Returns how many scripts clients have called so far, which is what a decision in Redis needs. */
  scriptCalls(): Promise<number>;
}

export async function startRedis(processes: Processes, port: number): Promise<Redis> {
  const settings = { bind: "127.0.0.1", port: String(port), save: "", appendonly: "no", dir: processes.directory };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const { pid, ended } = processes.start({ name: "redis", command: "redis-server", args });
  const info = async (section: string) => (await run("redis-cli", ["-p", String(port), "info", section])).stdout;
  const answers = async () => {
    const giveUpAt = Date.now() + patienceMs;
    for (;;) {
      try {
        if ((await info("server")).includes(`process_id:${pid}`)) return;
      } catch (error) {
        if (Date.now() > giveUpAt) throw error;
      }
      if (Date.now() > giveUpAt) throw new Error(`redis: port ${port} is answered by another process`);
      await sleep(20);
    }
  };
  await Promise.race([answers(), ended]);
  const scriptCalls = async () => {
    const stats = await info("commandstats");
    return [...stats.matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/gm)].reduce(
      (sum, [, n]) => sum + Number(n),
      0,
    );
  };
  return { pid, port, scriptCalls };
}
