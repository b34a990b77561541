// Puts load on one variant, and measures what it used of nginx and of Redis. A round's run consists of slices of a second,
// taken in turns with those of all other variants: a machine whose speed changes over half a minute changes it for all of them.
import { setTimeout as sleep } from "node:timers/promises";
import { cpuUs } from "./cpu-time.ts";
import type { NginxInstance } from "./nginx.ts";
import { spent } from "./policies.ts";
import type { Processes } from "./processes.ts";
import type { Redis } from "./redis.ts";
import { median } from "./statistics.ts";
import type { Variant } from "./variants.ts";
import { runWrk } from "./wrk.ts";

/** One second of load on one variant. */
export interface Slice {
  readonly requests: number;
  readonly durationUs: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly nginxUs: number;
  readonly redisUs: number;
  readonly redisCalls: number;
}

/** All slices of a variant in one round. */
export interface Run {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Per request, for all workers together. */
  readonly nginxCpuUs: number;
  readonly redisCpuUs: number;
  readonly redisCallsPerSecond: number;
  readonly redisCallsPerRequest: number;
  /** How many cores the workers used: near 1, one worker was saturated. */
  readonly nginxCores: number;
}

export const sliceSeconds = 1;

/** Work that the previous run left (closing connections, flushing counts) must not count for this one. */
const settleMs = 150;

/** @throws if an answer was not the variant's expected one, since the figures would be worthless */
export async function measure(
  processes: Processes,
  variant: Variant,
  nginx: NginxInstance,
  redis: Redis,
  connections: number,
): Promise<Slice> {
  await sleep(settleMs);
  const callsBefore = await redis.scriptCalls();
  const nginxBefore = cpuUs(nginx.workerPids);
  const redisBefore = cpuUs([redis.pid]);
  const load = await runWrk(processes, nginx.url, variant, variant.connections ?? connections, sliceSeconds);
  const nginxUs = cpuUs(nginx.workerPids) - nginxBefore;
  const redisUs = cpuUs([redis.pid]) - redisBefore;
  const redisCalls = (await redis.scriptCalls()) - callsBefore;

  const { requests, durationUs, statusErrors, socketErrors } = load;
  const allowed = requests - statusErrors;
  const expected = variant.flood ? allowed <= spent.burst : statusErrors === 0;
  if (!expected || socketErrors > 0) {
    throw new Error(
      `${variant.name}: expected ${variant.flood ? "all but the first two" : "none"} of ${requests} requests to be refused ` +
        `and no socket errors, got ${statusErrors} answers of 400 and above and ${socketErrors} socket errors`,
    );
  }
  const { p50Us, p99Us } = load;
  return { requests, durationUs, p50Us, p99Us, nginxUs, redisUs, redisCalls };
}

/** Returns the sums of all figures except the latencies, for which it returns the median. */
export function combine(slices: readonly Slice[]): Run {
  const total = (pick: (slice: Slice) => number) => slices.reduce((sum, slice) => sum + pick(slice), 0);
  const requests = total((slice) => slice.requests);
  const durationUs = total((slice) => slice.durationUs);
  const nginxUs = total((slice) => slice.nginxUs);
  const redisCalls = total((slice) => slice.redisCalls);
  return {
    requestsPerSecond: (requests / durationUs) * 1e6,
    p50Ms: median(slices.map(({ p50Us }) => p50Us)) / 1000,
    p99Ms: median(slices.map(({ p99Us }) => p99Us)) / 1000,
    nginxCpuUs: nginxUs / requests,
    redisCpuUs: total((slice) => slice.redisUs) / requests,
    redisCallsPerSecond: (redisCalls / durationUs) * 1e6,
    redisCallsPerRequest: redisCalls / requests,
    nginxCores: nginxUs / durationUs,
  };
}
