// A connection to Redis from nginx's keepalive pool, signed in and on its database.

import { redisLibrary } from "../runtime/lua-modules.ts";
import type { RedisSettings } from "../settings.ts";

const poolSize = 64;
/** Requests that may wait for a connection when all of a worker's are busy. */
const backlog = 10_000;
const maxIdleMs = 60_000;
/** Connecting includes the wait for a free connection, which is load, not a failing Redis. */
const connectDeadlines = 25;

/** @returns a connection, or what failed */
export function connect(settings: RedisSettings): LuaMultiReturn<[RedisConnection | undefined, string | undefined]> {
  if (redisLibrary === undefined) return $multi(undefined, "lua-resty-redis is not installed");
  const redis = redisLibrary.new();
  redis.set_timeouts(settings.deadlineMs * connectDeadlines, settings.deadlineMs, settings.deadlineMs);
  const [connected, failure] = redis.connect(settings.host, settings.port, {
    // Signed in differently, a connection is another one: pools never mix them.
    pool: `sluice:${settings.host}:${settings.port}:${settings.user}:${settings.database}:${settings.tls}`,
    pool_size: poolSize,
    backlog,
    ssl: settings.tls,
    ssl_verify: settings.tls,
  });
  if (connected === undefined) return $multi(undefined, `connect: ${failure}`);
  const [reused] = redis.get_reused_times();
  if (reused === 0) {
    const signIn = settings.user === "" ? [settings.password] : [settings.user, settings.password];
    if (settings.password !== "") {
      const [reply, authFailure] = redis.auth(...signIn);
      if (reply === undefined || reply === false) return abandon(redis, `auth: ${authFailure}`);
    }
    if (settings.database !== 0) {
      const [reply, selectFailure] = redis.select(settings.database);
      if (reply === undefined || reply === false) return abandon(redis, `select: ${selectFailure}`);
    }
  }
  return $multi(redis, undefined);
}

/** Back to the pool, for the next request. Only for a connection on which nothing is outstanding. */
export function keep(redis: RedisConnection): void {
  redis.set_keepalive(maxIdleMs, poolSize);
}

function abandon(redis: RedisConnection, failure: string): LuaMultiReturn<[undefined, string]> {
  redis.close();
  return $multi(undefined, failure);
}
