// Configures ioredis for each kind of deployment. It needs no right that a restricted Redis user may lack, sends each
// command at most once, and writes only to the database that SLUICE_REDIS_URL names.

import { setMaxListeners } from "node:events";
import type { ConnectionOptions } from "node:tls";
import { Cluster, Redis } from "ioredis";
import type { Address, RedisDeployment } from "./redis-url.ts";

const connectTimeoutMs = 2_000;
const commandTimeoutMs = 2_000;
const longestPauseMs = 1_000;

export function clientFor(deployment: RedisDeployment): Redis | Cluster {
  const options = { ...commonOptions(deployment), enableOfflineQueue: false };
  if (deployment.kind === "cluster") {
    return new Cluster(
      deployment.addresses.map(({ host, port }) => ({ host, port })),
      {
        redisOptions: commonOptions(deployment),
        enableReadyCheck: false,
        enableOfflineQueue: false,
        clusterRetryStrategy: pause,
        retryDelayOnFailover: 0,
        // Host names are passed on where nodes announce them: TLS compares them with the certificate.
        dnsLookup: (address, callback) => callback(null, address),
      },
    );
  }
  if (deployment.kind === "sentinel") {
    return new RedisOfOneDatabase({
      ...options,
      ...sentinelOptions(deployment),
      retryStrategy: pause,
      sentinelRetryStrategy: pause,
      reconnectOnError: (error) => error.message.startsWith("READONLY"),
    });
  }
  const { host, port } = deployment.addresses[0] as Address;
  return new RedisOfOneDatabase({ ...options, retryStrategy: pause, host, port });
}

/** Connects to a single node of a Cluster, once, when it gets its first command. */
export function nodeAt(deployment: RedisDeployment, { host, port }: Address): Redis {
  return new Redis({ ...commonOptions(deployment), host, port, lazyConnect: true, retryStrategy: () => null });
}

/**
 * Makes a connection that listens to a channel, and does not connect by itself, or again. In a Cluster, every node hears what is
 * published at any node.
 *
 * @param tries how many connections were lost or failed before: with several addresses, the next one is tried
 */
export function listenerFor(deployment: RedisDeployment, tries: number): Redis {
  const once = {
    ...commonOptions(deployment),
    // SELECT may be a right that the user lacks, and channels belong to no database.
    db: 0,
    lazyConnect: true,
    keepAlive: 10_000,
    retryStrategy: () => null,
  };
  if (deployment.kind === "sentinel") {
    return new Redis({ ...once, ...sentinelOptions(deployment), sentinelRetryStrategy: () => null });
  }
  const { host, port } = deployment.addresses[tries % deployment.addresses.length] as Address;
  return new Redis({ ...once, host, port });
}

function commonOptions(deployment: RedisDeployment) {
  return {
    ...accessOptions(deployment),
    connectTimeout: connectTimeoutMs,
    commandTimeout: commandTimeoutMs,
    // On its own, ioredis would send HELLO, INFO and CLIENT, which a restricted Redis user may not run.
    protocol: 2 as const,
    enableReadyCheck: false,
    disableClientInfo: true,
    // Each command is sent at most once.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
  };
}

function pause(times: number): number {
  return Math.min(100 * times, longestPauseMs);
}

/** If SELECT fails, ioredis itself only reports an error and continues in database 0. This class closes the connection. */
class RedisOfOneDatabase extends Redis {
  override async select(database: number | string): Promise<"OK"> {
    try {
      return await super.select(database);
    } catch (error) {
      await this.#close();
      // An error without a command of its own means that the connection or the sign-in failed, and is reported as that.
      if (!(error instanceof Error) || commandOf(error) !== "select") throw error;
      if (error.message.startsWith("NOAUTH") && this.options.password) return "OK";
      throw new Error(`select: ${error.message}`, { cause: error });
    }
  }

  /** Closes the connection, so that the rest of the handshake cannot make it ready. ioredis opens it again after a pause. */
  async #close(): Promise<void> {
    if (this.status !== "connect") return;
    const closed = new Promise((resolve) => this.once("close", resolve));
    this.disconnect(true);
    await closed;
  }
}

/** Returns the command that Redis answered with this error. */
function commandOf(error: Error): string | undefined {
  return (error as { command?: { name: string } }).command?.name;
}

const { signal } = new AbortController();
setMaxListeners(0, signal);
/**
 * The TLS options of every connection. ioredis listens for one error of a socket, but a TLS socket may have two: after we refused
 * its certificate, the server's alert may still arrive. An error to which nobody listens ends the process. Node listens for as
 * long as a socket lives if it may be destroyed by a signal, so there is a signal, which never comes.
 */
const tlsOptions: ConnectionOptions & { signal: AbortSignal } = { signal };

/** Returns the credentials, TLS and database options of a connection. */
function accessOptions({ user, password, tls, database }: RedisDeployment) {
  return {
    ...(user === "" ? {} : { username: user }),
    ...(password === "" ? {} : { password }),
    ...(tls ? { tls: tlsOptions } : {}),
    db: database,
  };
}

/** Returns the options by which ioredis finds the primary through its sentinels. */
function sentinelOptions(deployment: RedisDeployment & { kind: "sentinel" }) {
  const { addresses, name, sentinel, tls } = deployment;
  return {
    sentinels: addresses.map(({ host, port }) => ({ host, port })),
    name,
    updateSentinels: false,
    ...(sentinel.user === "" ? {} : { sentinelUsername: sentinel.user }),
    ...(sentinel.password === "" ? {} : { sentinelPassword: sentinel.password }),
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: tlsOptions } : {}),
  };
}
