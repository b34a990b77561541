// Reads the Redis scripts of the gateway from its build: they are data here, not imported code.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

export interface RedisScript {
  readonly sha1: string;
  readonly source: string;
}

export type RedisScripts = Readonly<Record<string, RedisScript>> &
  Readonly<Record<"peek" | "charge_deferred" | "top_up", RedisScript>>;

const file = resolve(import.meta.dirname, "../../../gateway/dist/sluice_redis_scripts.json");

/** @throws Error if the scripts have not been built */
export function readRedisScripts(): RedisScripts {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new Error(`SLUICE_REDIS_URL needs the scripts that "npm run build" makes, in ${file}`, { cause: error });
  }
}
