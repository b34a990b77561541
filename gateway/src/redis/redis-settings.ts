// The Redis of this gateway, which its stores share.

import type { RedisSettings } from "../settings.ts";

let opened: RedisSettings | undefined;

/** Called when a worker starts. @param settings undefined: the operator has configured none */
export function openRedis(settings: RedisSettings | undefined): void {
  opened = settings;
}

/** For those who are only reached with a Redis. */
export function theRedis(): RedisSettings {
  return opened as RedisSettings;
}

/** Undefined: the operator has configured none. */
export function configuredRedis(): RedisSettings | undefined {
  return opened;
}
