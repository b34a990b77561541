// A connection to a Redis server from nginx's keepalive pool, encrypted, signed in, on its database, and for Sentinel known
// to be to a primary.
//
// Debian's lua-resty-redis is older than OpenResty's: it has neither set_timeouts nor TLS, and takes an unknown method for
// a Redis command. What is used of it here, both have; the TLS handshake is ours.

import { type Access, type Address, poolName } from "../../../limiter/src/protocol/redis-url.ts";
import { redisLibrary } from "../runtime/lua-modules.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import { type Breaker, closedBreaker, noteAnswer, noteFailure, noteLateAnswer, noteSilence } from "./breaker.ts";
import {
  type Answerer,
  beginWaiting,
  isSilent,
  leftSeconds,
  newPatience,
  type Patience,
  patienceSeconds,
  releaseAllOf,
} from "./patience.ts";
import { readPatiently } from "./patient-socket.ts";

/** A server, and this worker's connections to it. */
export interface RedisServer extends Answerer {
  readonly access: Access;
  readonly address: Address;
  /** What is dialled: nginx's resolver asks DNS alone, which need not know localhost. */
  readonly host: string;
  readonly options: { readonly pool: string; readonly pool_size: number; readonly backlog: number };
  readonly breaker: Breaker;
  /** By the stopwatch, since when others are named in its stead; undefined: nobody said so. */
  replacedAtSeconds: number | undefined;
}

const poolSize = 64;
/** Requests that may wait for a connection when all of a worker's are busy. */
const backlog = 10_000;
const maxIdleMs = 60_000;
const probeKey = "sluice:probe";
const tooLate = "timeout: the new connection took too long";
/** Those who are asked where Redis is may disagree for a while, and name one and the other in turn. */
const expectedBackSeconds = 5;

const servers: Record<string, RedisServer | undefined> = {};

/** The server at this address, as it is used in this role. */
export function serverAt(access: Access, address: Address): RedisServer {
  const pool = poolName(access, address);
  let server = servers[pool];
  if (server === undefined) {
    const host = address.host === "localhost" ? "127.0.0.1" : address.host;
    const options = { pool, pool_size: poolSize, backlog };
    server = {
      access,
      address,
      host,
      options,
      breaker: closedBreaker(`Redis at ${address.host}:${address.port}`),
      answeredAtSeconds: 0,
      replacedAtSeconds: undefined,
    };
    servers[pool] = server;
  }
  return server;
}

/**
 * Whoever else had this role is forgotten, unless it is named again soon: it may never be back, and its address another's.
 *
 * @param current all who have this role now
 */
export function forgetOthers({ role }: Access, current: readonly RedisServer[]): void {
  const now = stopwatchSeconds();
  for (const pool in servers) {
    const server = servers[pool] as RedisServer;
    if (server.access.role !== role) continue;
    if (current.includes(server)) server.replacedAtSeconds = undefined;
    else if (isGone(server)) servers[pool] = undefined;
    else server.replacedAtSeconds ??= now;
  }
}

function isGone({ replacedAtSeconds }: RedisServer): boolean {
  return replacedAtSeconds !== undefined && stopwatchSeconds() - replacedAtSeconds > expectedBackSeconds;
}

/**
 * @param deadlineMs of each step, and of the commands that follow, by nginx's clock
 * @param patience for whoever waits: of each step and each reply, by the patience clock
 * @returns a connection, to be given back by `keep` or `discard`; or what failed, and then no script was sent
 */
export function connectTo(
  server: RedisServer,
  deadlineMs: number,
  patience: Patience = newPatience(deadlineMs),
): LuaMultiReturn<[RedisConnection | undefined, string | undefined]> {
  if (redisLibrary === undefined) return $multi(undefined, "lua-resty-redis is not installed");
  beginWaiting(patience, server);
  const [redis, connectFailure] = connectPatiently(server, deadlineMs, patience);
  if (redis === undefined) return $multi(undefined, `connect: ${connectFailure}`);
  const [reused] = redis.get_reused_times();
  if (reused !== 0) return $multi(redis, undefined);
  const greetingFailure = greet(redis, server, patience);
  if (greetingFailure !== undefined) {
    discard(redis);
    return $multi(undefined, greetingFailure);
  }
  if (leftSeconds(patience) > 0) return $multi(redis, undefined);
  // For the next request.
  keep(redis);
  return $multi(undefined, tooLate);
}

/** By nginx's clock alone, a worker that was late itself would give up on a connection that is there. */
function connectPatiently(
  server: RedisServer,
  deadlineMs: number,
  patience: Patience,
): LuaMultiReturn<[RedisConnection | undefined, string | undefined]> {
  const endsAtSeconds = stopwatchSeconds() + patience.limitSeconds;
  for (;;) {
    const redis = (redisLibrary as NonNullable<typeof redisLibrary>).new();
    readPatiently(redis, patience);
    redis.set_timeout(deadlineMs);
    const [connected, failure] = redis.connect(server.host, server.address.port, server.options);
    if (connected !== undefined) return $multi(redis, undefined);
    const isOver = isSilent(patience) || leftSeconds(patience) <= 0 || stopwatchSeconds() >= endsAtSeconds;
    if (failure !== "timeout" || isOver) return $multi(undefined, failure);
  }
}

/** The server has replied to something. */
export function noteAnswerOf(server: RedisServer, { released }: Patience): void {
  if (released) {
    noteLateAnswer(server.breaker);
    return;
  }
  server.answeredAtSeconds = patienceSeconds();
  noteAnswer(server.breaker);
}

/**
 * A call to it failed. After a silence, or some failures in a row, it is left alone until it answers a probe, or is gone for
 * good.
 */
export function noteFailureOf(server: RedisServer, { deadlineMs }: RedisSettings, wasSilent: boolean): void {
  const probe = () => isGone(server) || answersProbe(server, deadlineMs);
  if (!wasSilent) {
    noteFailure(server.breaker, probe);
    return;
  }
  noteSilence(server.breaker, probe);
  releaseAllOf(server);
}

/**
 * Connections that were kept may all be dead while a new one works: each is tried, until one answers or a new one does not.
 *
 * @param deadlineMs of each step: what is new is kept, so that a server which is too far away for a new connection within one
 *   deadline is asked on this one
 */
function answersProbe(server: RedisServer, deadlineMs: number): boolean {
  for (let kept = 0; kept <= poolSize; kept++) {
    const [redis] = connectTo(server, deadlineMs);
    if (redis === undefined) return false;
    const [reused] = redis.get_reused_times();
    const [answers] = probe(redis);
    if (answers !== undefined) return answers;
    if (reused === 0) return false;
  }
  return false;
}

/**
 * By a command that a server refuses which is loading its data, or has lost its primary. Gives the connection back.
 *
 * @returns whether it is fit to decide, undefined without a reply; and why not
 */
export function probe(redis: RedisConnection): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const [reply, failure] = redis.get(probeKey);
  if (reply === undefined) {
    discard(redis);
    return $multi(undefined, failure);
  }
  keep(redis);
  // A key of another slot is an answer too.
  return $multi(reply !== false || failure?.startsWith("MOVED") === true, failure);
}

/** Back to the pool, for the next request. Only for a connection on which nothing is outstanding. */
export function keep(redis: RedisConnection): void {
  redis.set_keepalive(maxIdleMs, poolSize);
}

/** For a connection on which something may still be outstanding: what comes must reach nobody else. */
export function discard(redis: RedisConnection): void {
  redis.close();
}

type Step = (this: void, redis: RedisConnection, server: RedisServer) => string | undefined;

/** What a new connection needs before its first command; each tells what failed. */
const greeting: readonly Step[] = [encrypt, signIn, selectDatabase, expectPrimary];

function greet(redis: RedisConnection, server: RedisServer, patience: Patience): string | undefined {
  for (const step of greeting) {
    if (leftSeconds(patience) <= 0) return tooLate;
    const failure = step(redis, server);
    if (failure !== undefined) return failure;
  }
  return undefined;
}

function encrypt(redis: RedisConnection, { access, address }: RedisServer): string | undefined {
  if (!access.tls) return undefined;
  const socket = rawget(redis, "_sock");
  if (socket === undefined) return "tls: this lua-resty-redis hides its socket";
  const [secured, failure] = socket.sslhandshake(false, address.host, true);
  if (!secured) return `tls: ${failure}`;
  // Where the peer answers at once, ngx_lua reports success for a certificate that it has refused, and has hung up.
  const [times] = redis.get_reused_times();
  return times === undefined ? "tls: certificate not trusted, or host mismatch" : undefined;
}

function signIn(redis: RedisConnection, { access }: RedisServer): string | undefined {
  if (access.password === "") return undefined;
  const credentials = access.user === "" ? [access.password] : [access.user, access.password];
  const [reply, failure] = redis.auth(...credentials);
  return reply ? undefined : `auth: ${failure}`;
}

function selectDatabase(redis: RedisConnection, { access }: RedisServer): string | undefined {
  if (access.database === 0) return undefined;
  const [reply, failure] = redis.select(access.database);
  return reply ? undefined : `select: ${failure}`;
}

/** A deposed primary that still answers would take what is lost when it follows the new one. */
function expectPrimary(redis: RedisConnection, { access }: RedisServer): string | undefined {
  if (access.role !== "primary") return undefined;
  const [reply, failure] = redis.role();
  if (!reply) return `role: ${failure}`;
  const [role] = reply as readonly unknown[];
  return role === "master" ? undefined : `role: expected a primary, got a ${role}`;
}
