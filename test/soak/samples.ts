// Takes samples of what the fleet holds at a moment: its processes, Redis and the dicts.

import { ask } from "../fixtures/clients/requests.ts";
import type { Fleet } from "./fleet.ts";
import type { Looking, Possessions } from "./possessions.ts";

export interface Sample {
  /** Milliseconds since the load began. */
  readonly atMs: number;
  /** True if there is no fault, and was none within the last seconds. */
  readonly quiet: boolean;
  readonly roles: Possessions;
  /** Only read in quiet times. */
  readonly redis: RedisSample | undefined;
  readonly metrics: readonly Readonly<Record<string, number>>[] | undefined;
}

export interface RedisSample {
  readonly usedMemoryKb: number;
  readonly keys: number;
  readonly clients: number;
}

/** Names of metrics in /sluice/metrics. */
export const metricNames = [
  "sluice_counters_free_bytes",
  "sluice_live_gateways",
  "sluice_lock_timeouts_total",
  "sluice_evictions_total",
  "sluice_unstored_charges_total",
] as const;

export async function takeSample(fleet: Fleet, looking: Looking, atMs: number, quiet: boolean): Promise<Sample> {
  // It is undefined while the control plane restarts.
  const controlPlane = fleet.system.controlPlanePid as number | undefined;
  const gateways = fleet.system.gateways.map(({ directory }) => directory);
  const roles = await looking.at({ gateways, controlPlane });
  return {
    atMs,
    quiet,
    roles,
    redis: quiet ? await redisSample(fleet) : undefined,
    metrics: quiet
      ? await Promise.all(fleet.system.gateways.map(({ privateUrl }) => readMetrics(privateUrl)))
      : undefined,
  };
}

async function redisSample({ redis }: Fleet): Promise<RedisSample> {
  const [memory, clients, keys] = await Promise.all([
    redis.command("INFO", "memory"),
    redis.command("INFO", "clients"),
    redis.command("DBSIZE"),
  ]);
  const figure = (text: unknown, name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(String(text))?.[1]);
  return {
    usedMemoryKb: Math.round(figure(memory, "used_memory") / 1024),
    // This includes our own connection.
    clients: figure(clients, "connected_clients"),
    keys: Number(keys),
  };
}

async function readMetrics(privateUrl: string): Promise<Record<string, number>> {
  const { body } = await ask(`${privateUrl}/sluice/metrics`);
  return Object.fromEntries(
    metricNames.map((name) => [name, Number(new RegExp(`^${name} (\\S+)$`, "m").exec(body)?.[1])]),
  );
}
