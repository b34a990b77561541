// A connection to a Redis server from nginx's keepalive pool: encrypted, authenticated, and with its database selected. With
// Sentinel, the server is verified to be a primary.
//
// Debian's lua-resty-redis is older than OpenResty's: it has neither set_timeouts nor TLS, and takes an unknown method for a
// Redis command. This module uses only what both versions have, and does the TLS handshake itself.

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
  pauseMs,
  releaseAllOf,
} from "./patience.ts";
import { readPatiently } from "./patient-socket.ts";

/** A server, and this worker's connections to it. */
export interface RedisServer extends Answerer {
  readonly access: Access;
  readonly address: Address;
  /** The host to dial: nginx's resolver only asks DNS, which may not know localhost. */
  readonly host: string;
  /** Names the pool of connections in use. Renewed connections are in another pool: see connection-age.ts. */
  options: ConnectOptions;
  /** How many connections were made in this pool. */
  made: number;
  readonly breaker: Breaker;
  /** When other servers were first named in its place, by the stopwatch; undefined: it is still named. */
  replacedAtSeconds: number | undefined;
}

interface ConnectOptions {
  readonly pool: string;
  readonly pool_size: number;
  readonly backlog: number;
}

const poolSize = 64;
/** The number of requests that may wait for a connection while all of a worker's connections are busy. */
const backlog = 10_000;
const maxIdleMs = 60_000;
const probeKey = "sluice:probe";
const tooLate = "timeout: the new connection took too long";
/** Sentinels or cluster nodes may disagree for a while and name one server and another in turn. */
const expectedBackSeconds = 5;

const servers: Record<string, RedisServer | undefined> = {};
/** How often connections were renewed. */
let generation = 0;

/** Returns the server at this address in this role. */
export function serverAt(access: Access, address: Address): RedisServer {
  const pool = poolName(access, address);
  let server = servers[pool];
  if (server === undefined) {
    const host = address.host === "localhost" ? "127.0.0.1" : address.host;
    server = {
      access,
      address,
      host,
      options: newestOptions(access, address),
      made: 0,
      breaker: closedBreaker(`Redis at ${address.host}:${address.port}`),
      answeredAtSeconds: 0,
      replacedAtSeconds: undefined,
    };
    servers[pool] = server;
  }
  return server;
}

/** Names the pool for connections that are made from now on. */
export function newestOptions(access: Access, address: Address): ConnectOptions {
  return { pool: `${poolName(access, address)}#${generation}`, pool_size: poolSize, backlog };
}

/** From now on, `newestOptions` names new pools. @returns the servers whose present connections are to be renewed */
export function beginRenewal(): RedisServer[] {
  generation += 1;
  const connected: RedisServer[] = [];
  for (const pool in servers) {
    const server = servers[pool] as RedisServer;
    if (server.made > 0) connected.push(server);
  }
  return connected;
}

/** From now on, requests use these connections, which may lead to another server of the same name. */
export function useConnections(
  server: RedisServer,
  prepared: readonly RedisConnection[],
  options: ConnectOptions,
): void {
  for (const redis of prepared) keep(redis);
  server.options = options;
  server.made = prepared.length;
}

/**
 * Forgets the other servers that had this role, unless one is named again soon: a server may never come back, and another may get
 * its address.
 *
 * @param current all servers that have this role now
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
 * @param deadlineMs for each step and for the commands that follow, by nginx's clock
 * @param patience of the waiting call: for each step and each reply, by the patience clock
 * @param options name the pool
 * @returns a connection, to be released by `keep` or `discard`; or the error message, and then no script was sent
 */
export function connectTo(
  server: RedisServer,
  deadlineMs: number,
  patience: Patience = newPatience(deadlineMs),
  options: ConnectOptions = server.options,
): LuaMultiReturn<[RedisConnection | undefined, string | undefined]> {
  if (redisLibrary === undefined) return $multi(undefined, "lua-resty-redis is not installed");
  beginWaiting(patience, server);
  const [redis, connectFailure] = connectPatiently(server, deadlineMs, patience, options);
  if (redis === undefined) return $multi(undefined, `connect: ${connectFailure}`);
  const [reused] = redis.get_reused_times();
  if (reused !== 0) return $multi(redis, undefined);
  const greetingFailure = greet(redis, server, patience);
  if (greetingFailure !== undefined) {
    discard(redis);
    return $multi(undefined, greetingFailure);
  }
  if (options === server.options) server.made += 1;
  if (leftSeconds(patience) > 0) return $multi(redis, undefined);
  // Keep the connection for the next request.
  keep(redis);
  return $multi(undefined, tooLate);
}

/** Tries again if only nginx's clock timed out: a worker that was late itself would otherwise give up on a good connection. */
function connectPatiently(
  server: RedisServer,
  deadlineMs: number,
  patience: Patience,
  options: ConnectOptions,
): LuaMultiReturn<[RedisConnection | undefined, string | undefined]> {
  const endsAtSeconds = stopwatchSeconds() + patience.limitSeconds;
  let timeoutMs = deadlineMs;
  for (;;) {
    const redis = (redisLibrary as NonNullable<typeof redisLibrary>).new();
    readPatiently(redis, patience);
    redis.set_timeout(timeoutMs);
    const [connected, failure] = redis.connect(server.host, server.address.port, options);
    if (connected !== undefined) return $multi(redis, undefined);
    const isOver = isSilent(patience) || leftSeconds(patience) <= 0 || stopwatchSeconds() >= endsAtSeconds;
    if (failure !== "timeout" || isOver) return $multi(undefined, failure);
    // The patience clock may be a tick behind nginx's: the next try takes what is left by it, and not a whole deadline.
    timeoutMs = math.min(deadlineMs, pauseMs(patience));
  }
}

/** Called when the server has replied to a command. */
export function noteAnswerOf(server: RedisServer, { released }: Patience): void {
  if (released) {
    noteLateAnswer(server.breaker);
    return;
  }
  server.answeredAtSeconds = patienceSeconds();
  noteAnswer(server.breaker);
}

/**
 * Called when a call to the server failed. After a silence, or some failures in a row, the worker sends it nothing until it
 * answers a probe or has been replaced for good.
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
 * All kept connections may be dead while a new one works. So each is tried, until one answers or a new one does not.
 *
 * @param deadlineMs for each step. New connections are kept: if the server is too far away to connect within one deadline, the
 * next call uses this connection
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
 * Probes with a command that a server refuses while it loads its data or after it has lost its primary. Releases the connection.
 *
 * @returns whether the server is fit to decide, undefined without a reply; and why it is not
 */
export function probe(redis: RedisConnection): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const [reply, failure] = redis.get(probeKey);
  if (reply === undefined) {
    discard(redis);
    return $multi(undefined, failure);
  }
  keep(redis);
  // An error because the key belongs to another slot is an answer too.
  return $multi(reply !== false || failure?.startsWith("MOVED") === true, failure);
}

/**
 * Finds out whether a server takes writes now, by one that changes nothing.
 *
 * @returns why it does not
 */
export function refusalToWrite(redis: RedisConnection): string | undefined {
  const [reply, failure] = redis.pexpire(probeKey, 1);
  if (reply !== undefined && reply !== false) return undefined;
  // An error because the key belongs to another slot says that this node works.
  const isElsewhere = failure?.startsWith("MOVED") === true || failure?.startsWith("ASK ") === true;
  return isElsewhere ? undefined : (failure ?? "no reply");
}

/** Returns a connection to the pool, for the next request. Only for a connection on which no reply is outstanding. */
export function keep(redis: RedisConnection): void {
  redis.set_keepalive(maxIdleMs, poolSize);
}

/** Closes a connection on which a reply may be outstanding: another request must not receive that reply. */
export function discard(redis: RedisConnection): void {
  redis.close();
}

type Step = (this: void, redis: RedisConnection, server: RedisServer) => string | undefined;

/** The steps before the first command on a new connection; each returns its error message. */
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
  // If the peer answers at once, ngx_lua reports success for a certificate that it has rejected, although it has hung up.
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

/** A deposed primary that still answers would accept writes that it loses when it follows the new primary. */
function expectPrimary(redis: RedisConnection, { access }: RedisServer): string | undefined {
  if (access.role !== "primary") return undefined;
  const [reply, failure] = redis.role();
  if (!reply) return `role: ${failure}`;
  const [role] = reply as readonly unknown[];
  return role === "master" ? undefined : `role: expected a primary, got a ${role}`;
}
