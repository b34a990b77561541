// The figures that the bench measured for one variant.

import type { Run } from "./measure.ts";

export interface Figures {
  readonly name: string;
  readonly about: string;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly nginxCpuUs: number;
  /** The spread of the rounds: (most − least) ÷ median. */
  readonly nginxCpuSpread: number;
  readonly nginxCores: number;
  readonly redisCpuUs: number;
  readonly redisCallsPerSecond: number;
  readonly redisCallsPerRequest: number;
  /** The ratio of nginx's CPU to that of the native limiter. */
  readonly toNative?: number;
  /** The ratios to one EVALSHA a request. `cpu` is nginx and Redis together. */
  readonly toRedisEach?: {
    readonly requestsPerSecond: number;
    readonly cpu: number;
    readonly p50: number;
    readonly p99: number;
  };
  readonly rounds: readonly Run[];
}
