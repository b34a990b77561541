// How ioredis is set up for each deployment: it asks for nothing that a user of few rights may not have, sends a command
// once or not at all, and writes to no database but the one that SLUICE_REDIS_URL names.

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
        // Names, where nodes announce them: TLS compares them with the certificate.
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

/** One node of a Cluster, asked alone: connects once, when it is given a command. */
export function nodeAt(deployment: RedisDeployment, { host, port }: Address): Redis {
  return new Redis({ ...commonOptions(deployment), host, port, lazyConnect: true, retryStrategy: () => null });
}

function commonOptions(deployment: RedisDeployment) {
  return {
    ...accessOptions(deployment),
    connectTimeout: connectTimeoutMs,
    commandTimeout: commandTimeoutMs,
    // What it would ask for on its own wants rights that a user of few has not: HELLO, INFO, CLIENT.
    protocol: 2 as const,
    enableReadyCheck: false,
    disableClientInfo: true,
    // A command is sent once or not at all.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
  };
}

function pause(times: number): number {
  return Math.min(100 * times, longestPauseMs);
}

/** Where SELECT fails, ioredis itself would tell an error and go on in database 0. */
class RedisOfOneDatabase extends Redis {
  override async select(database: number | string): Promise<"OK"> {
    try {
      return await super.select(database);
    } catch (error) {
      await this.#close();
      // Without a reply of its own: the connection or the sign-in failed, and is told as that.
      if (!(error instanceof Error) || commandOf(error) !== "select") throw error;
      if (error.message.startsWith("NOAUTH") && this.options.password) return "OK";
      throw new Error(`select: ${error.message}`, { cause: error });
    }
  }

  /** Once it is closed, a handshake that goes on makes no connection ready. It is opened again after a pause. */
  async #close(): Promise<void> {
    if (this.status !== "connect") return;
    const closed = new Promise((resolve) => this.once("close", resolve));
    this.disconnect(true);
    await closed;
  }
}

/** What Redis replied this error to. */
function commandOf(error: Error): string | undefined {
  return (error as { command?: { name: string } }).command?.name;
}

/** How ioredis signs in at a server. */
function accessOptions({ user, password, tls, database }: RedisDeployment) {
  return {
    ...(user === "" ? {} : { username: user }),
    ...(password === "" ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
    db: database,
  };
}

/** How ioredis finds the primary by its sentinels. */
function sentinelOptions(deployment: RedisDeployment & { kind: "sentinel" }) {
  const { addresses, name, sentinel, tls } = deployment;
  return {
    sentinels: addresses.map(({ host, port }) => ({ host, port })),
    name,
    updateSentinels: false,
    ...(sentinel.user === "" ? {} : { sentinelUsername: sentinel.user }),
    ...(sentinel.password === "" ? {} : { sentinelPassword: sentinel.password }),
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
  };
}
