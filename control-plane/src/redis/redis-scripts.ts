// The scripts that gateways run in Redis, as the build left them: data of the gateway, no code that is imported.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

export interface RedisScript {
  readonly sha1: string;
  readonly source: string;
}

export type RedisScripts = Readonly<Record<string, RedisScript>> &
  Readonly<Record<"peek" | "charge_deferred" | "top_up", RedisScript>>;

const file = resolve(import.meta.dirname, "../../../gateway/dist/sluice_redis_scripts.json");

/** @throws when they were not built */
export function readRedisScripts(): RedisScripts {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new Error(`SLUICE_REDIS_URL needs the scripts that "npm run build" makes, in ${file}`, { cause: error });
  }
}
