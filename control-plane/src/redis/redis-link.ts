// The control plane's connection to Redis: keeps the gateways' scripts there, knows whether it answers, and runs scripts
// itself. Everything else here works without it: nothing waits for Redis, and a command to one that is away fails at once.

import { Cluster, type Redis } from "ioredis";
import { clientFor } from "./redis-client.ts";
import type { RedisScript, RedisScripts } from "./redis-scripts.ts";
import type { RedisDeployment } from "./redis-url.ts";

export interface RedisHealth {
  /** connecting: nobody knows yet. */
  readonly state: "connecting" | "ok" | "failing";
  readonly sinceMs: number;
  /** What failed last, while it fails. */
  readonly error: string | undefined;
}

export interface RedisLinkDependencies {
  readonly deployment: RedisDeployment;
  readonly scripts: RedisScripts;
  /** ms since 1970. */
  now(): number;
  /** Called whenever the state changes. */
  onHealth(health: RedisHealth): void;
}

/** How often every primary is asked whether it answers, and given the scripts where it is new to us. */
const lookEveryMs = 1_000;

export class RedisLink {
  readonly #dependencies: RedisLinkDependencies;
  readonly #client: Redis | Cluster;
  /** Connections to servers that have had the scripts since they were opened. */
  readonly #loaded = new WeakSet<Redis>();
  readonly #timer: NodeJS.Timeout;
  #health: RedisHealth;
  #lastError: string | undefined;
  #looking = false;
  #looksAgain = false;
  #stopped = false;

  constructor(dependencies: RedisLinkDependencies) {
    this.#dependencies = dependencies;
    this.#health = { state: "connecting", sinceMs: dependencies.now(), error: undefined };
    this.#client = clientFor(dependencies.deployment);
    // An error without a listener would end the process; what it says of a connection is told when that fails.
    this.#client.on("error", (error: Error) => {
      this.#lastError = causeOf(error);
    });
    this.#client.on("ready", () => void this.#look());
    this.#timer = setInterval(() => void this.#look(), lookEveryMs);
    this.#timer.unref();
  }

  get health(): RedisHealth {
    return this.#health;
  }

  /**
   * Runs a script on the server that has its keys, all of one slot. Sent once: a reply that was lost may have been a change.
   * @throws what ioredis throws
   */
  async run(script: RedisScript, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    try {
      return await this.#client.evalsha(script.sha1, keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return this.#client.eval(script.source, keys.length, ...keys, ...args);
    }
  }

  /** @param keys all of one slot */
  async delete(keys: readonly string[]): Promise<void> {
    await this.#client.del(...keys);
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#client.disconnect();
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#looking) {
      this.#looksAgain = true;
      return;
    }
    this.#looking = true;
    do {
      this.#looksAgain = false;
      const failure = await this.#visitPrimaries();
      if (!this.#stopped) this.#become(failure);
    } while (this.#looksAgain && !this.#stopped);
    this.#looking = false;
  }

  /** @returns what failed */
  async #visitPrimaries(): Promise<string | undefined> {
    try {
      const client = this.#client;
      const primaries = client instanceof Cluster ? client.nodes("master") : [client];
      if (primaries.length === 0) return this.#lastError ?? "no node of the cluster answers";
      await Promise.all(primaries.map((primary) => this.#visit(primary)));
      return undefined;
    } catch (error) {
      // Of a connection that is not there, ioredis says how its queue is set; why it is not there, it said before.
      return isOffline(error) ? (this.#lastError ?? "not connected") : causeOf(error);
    }
  }

  async #visit(primary: Redis): Promise<void> {
    if (this.#loaded.has(primary)) {
      await primary.ping();
      return;
    }
    if (this.#dependencies.deployment.kind === "sentinel") await refuseReplica(primary);
    for (const { source } of Object.values(this.#dependencies.scripts)) await primary.script("LOAD", source);
    this.#loaded.add(primary);
    primary.once("close", () => this.#loaded.delete(primary));
  }

  #become(error: string | undefined): void {
    const state = error === undefined ? "ok" : "failing";
    const changed = this.#health.state !== state;
    this.#health = { state, sinceMs: changed ? this.#dependencies.now() : this.#health.sinceMs, error };
    if (changed) this.#dependencies.onHealth(this.#health);
  }
}

/** A deposed primary would lose what it is told when it follows the new one. */
async function refuseReplica(server: Redis): Promise<void> {
  const [role] = (await server.role()) as [string];
  if (role === "master") return;
  server.disconnect(true);
  throw new Error(`expected a primary, got a ${role}`);
}

function isOffline(error: unknown): boolean {
  return (
    error instanceof Error && /enableOfflineQueue|Connection is closed|max retries per request/i.test(error.message)
  );
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { lastNodeError } = error as { lastNodeError?: Error };
  if (lastNodeError !== undefined) return causeOf(lastNodeError);
  // Of a host with several addresses, Node's error is a list.
  const inner = error instanceof AggregateError ? error.errors[0] : undefined;
  return inner instanceof Error ? inner.message : error.message;
}
