// The Redis settings of this gateway, which its stores share.

import type { RedisSettings } from "../settings.ts";

let opened: RedisSettings | undefined;

/** Called when a worker starts. @param settings undefined: the operator has configured no Redis */
export function openRedis(settings: RedisSettings | undefined): void {
  opened = settings;
}

/** For code that only runs if a Redis is configured. */
export function theRedis(): RedisSettings {
  return opened as RedisSettings;
}

/** Undefined: the operator has configured no Redis. */
export function configuredRedis(): RedisSettings | undefined {
  return opened;
}
