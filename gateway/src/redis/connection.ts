// A connection to Redis from nginx's keepalive pool, encrypted, signed in and on its database.
//
// Debian's lua-resty-redis is older than OpenResty's: it has neither set_timeouts nor TLS, and takes an unknown method for
// a Redis command. What is used of it here, both have; the TLS handshake is ours.

import { redisLibrary } from "../runtime/lua-modules.ts";
import type { RedisSettings } from "../settings.ts";

const poolSize = 64;
/** Requests that may wait for a connection when all of a worker's are busy. */
const backlog = 10_000;
const maxIdleMs = 60_000;
/** Waiting for a connection that others hold is load, not a failing Redis: it may take this many deadlines. */
const queueDeadlines = 25;

/** Connections of this worker that are taken or being opened. */
let inUse = 0;

/** @returns a connection, to be given back by `keep` or `discard`; or what failed */
export function connect(settings: RedisSettings): LuaMultiReturn<[RedisConnection | undefined, string | undefined]> {
  if (redisLibrary === undefined) return $multi(undefined, "lua-resty-redis is not installed");
  const redis = redisLibrary.new();
  redis.set_timeout(inUse < poolSize ? settings.deadlineMs : settings.deadlineMs * queueDeadlines);
  inUse += 1;
  const [connected, failure] = redis.connect(settings.host, settings.port, {
    // Signed in differently, a connection is another one: pools never mix them.
    pool: `sluice:${settings.host}:${settings.port}:${settings.user}:${settings.database}:${settings.tlsName}`,
    pool_size: poolSize,
    backlog,
  });
  if (connected === undefined) {
    inUse -= 1;
    return $multi(undefined, `connect: ${failure}`);
  }
  redis.set_timeout(settings.deadlineMs);
  const [reused] = redis.get_reused_times();
  const greetingFailure = reused === 0 ? greet(redis, settings) : undefined;
  if (greetingFailure !== undefined) {
    discard(redis);
    return $multi(undefined, greetingFailure);
  }
  return $multi(redis, undefined);
}

/** Back to the pool, for the next request. Only for a connection on which nothing is outstanding. */
export function keep(redis: RedisConnection): void {
  inUse -= 1;
  redis.set_keepalive(maxIdleMs, poolSize);
}

/** For a connection on which something may still be outstanding: what comes must reach nobody else. */
export function discard(redis: RedisConnection): void {
  inUse -= 1;
  redis.close();
}

/** What a new connection needs before its first command. @returns what failed */
function greet(redis: RedisConnection, settings: RedisSettings): string | undefined {
  if (settings.tlsName !== undefined) {
    const socket = rawget(redis, "_sock");
    if (socket === undefined) return "tls: this lua-resty-redis hides its socket";
    const [secured, failure] = socket.sslhandshake(false, settings.tlsName, true);
    if (!secured) return `tls: ${failure}`;
    // Where the peer answers at once, ngx_lua reports success for a certificate that it has refused, and has hung up.
    const [times] = redis.get_reused_times();
    if (times === undefined) return "tls: certificate not trusted, or host mismatch";
  }
  if (settings.password !== "") {
    const signIn = settings.user === "" ? [settings.password] : [settings.user, settings.password];
    const [reply, failure] = redis.auth(...signIn);
    if (!reply) return `auth: ${failure}`;
  }
  if (settings.database !== 0) {
    const [reply, failure] = redis.select(settings.database);
    if (!reply) return `select: ${failure}`;
  }
  return undefined;
}
