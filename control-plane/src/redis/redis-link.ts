// The control plane's connection to Redis: keeps the gateways' scripts there, knows whether it does what counters need, and
// runs scripts itself. Everything else here works without it: nothing waits for Redis, and a command to one that is away
// fails at once.

import { Cluster, type Redis } from "ioredis";
import { clientFor, nodeAt } from "./redis-client.ts";
import { clauseFor, describeFailure, isOffline, isUnknownPrimary, RedisFailure } from "./redis-failure.ts";
import { checkRights, probeKey } from "./redis-rights.ts";
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
  onHealth(health: RedisHealth, former: RedisHealth["state"]): void;
}

/** How often every primary is asked to do what counters need, and given the scripts where it is new to us. */
const lookEveryMs = 1_000;
const slotCount = 16_384;
const unreachable = "no connection";

export class RedisLink {
  readonly #dependencies: RedisLinkDependencies;
  readonly #client: Redis | Cluster;
  /** Connections to servers that have had the scripts since they were opened. */
  readonly #loaded = new WeakSet<Redis>();
  /** What was told of a connection last: the reason, when a command finds it closed. */
  readonly #reported = new WeakMap<Redis | Cluster, string>();
  readonly #timer: NodeJS.Timeout;
  #health: RedisHealth;
  #looking = false;
  #looksAgain = false;
  #stopped = false;

  constructor(dependencies: RedisLinkDependencies) {
    this.#dependencies = dependencies;
    this.#health = { state: "connecting", sinceMs: dependencies.now(), error: undefined };
    this.#client = clientFor(dependencies.deployment);
    // An error without a listener would end the process.
    this.#client.on("error", (error: Error) => this.#note(this.#client, error));
    this.#client.on("+node", (node: Redis) => node.on("error", (error: Error) => this.#note(node, error)));
    this.#client.on("sentinelError", (error: Error) => {
      if (isUnknownPrimary(error)) this.#note(this.#client, error);
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
   * @throws RedisFailure
   */
  async run(script: RedisScript, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    return this.#done(async (client) => {
      try {
        return await client.evalsha(script.sha1, keys.length, ...keys, ...args);
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
        return client.eval(script.source, keys.length, ...keys, ...args);
      }
    });
  }

  /**
   * @param keys all of one slot
   * @throws RedisFailure
   */
  async delete(keys: readonly string[]): Promise<void> {
    await this.#done((client) => client.del(...keys));
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#client.disconnect();
  }

  async #done<Result>(ask: (client: Redis | Cluster) => Promise<Result>): Promise<Result> {
    try {
      return await ask(this.#client);
    } catch (error) {
      const description = this.#describe(this.#client, error);
      // Of a node that it found closed, a Cluster does not say which it was.
      const cause = isOffline(error) ? (this.#health.error ?? description) : description;
      throw new RedisFailure(cause, clauseFor(cause));
    }
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#isFirstConnecting()) return;
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

  /** Nothing failed yet: it becomes ready, or tells an error. */
  #isFirstConnecting(): boolean {
    const client = this.#client;
    const connecting = client.status === "connecting" || client.status === "connect";
    return !(client instanceof Cluster) && connecting && !this.#reported.has(client);
  }

  /** @returns what failed */
  async #visitPrimaries(): Promise<string | undefined> {
    const client = this.#client;
    if (!(client instanceof Cluster)) return this.#failureOf(client, () => this.#visit(client));
    const failure = await this.#failureOf(client, () => refreshSlots(client));
    if (failure !== undefined) return failure === unreachable ? this.#whyUnreachable() : failure;
    const primaries = client.nodes("master");
    if (primaries.length === 0) return "no node of the cluster has slots";
    const all = await Promise.all(primaries.map((primary) => this.#failureAt(primary)));
    const failures = all.filter((failure) => failure !== undefined);
    // What took the cluster down rather than what its other nodes say of it.
    return failures.find((failure) => !failure.includes("CLUSTERDOWN")) ?? failures[0];
  }

  async #failureOf(connection: Redis | Cluster, ask: () => Promise<unknown>): Promise<string | undefined> {
    try {
      await ask();
      this.#reported.delete(connection);
      return undefined;
    } catch (error) {
      return this.#describe(connection, error);
    }
  }

  /** Of a node of the cluster. */
  async #failureAt(node: Redis): Promise<string | undefined> {
    const failure = await this.#failureOf(node, async () => {
      await this.#visit(node);
      await requireAllSlots(node);
    });
    return failure === undefined ? undefined : `${serverOf(node)}: ${failure}`;
  }

  /** What is told of the nodes in the URL when they are asked alone: of a Cluster, ioredis keeps it to itself. */
  async #whyUnreachable(): Promise<string> {
    const reasons = await Promise.all(
      this.#dependencies.deployment.addresses.map(async (address) => {
        const node = nodeAt(this.#dependencies.deployment, address);
        node.on("error", (error: Error) => this.#note(node, error));
        const failure = await this.#failureOf(node, () => node.cluster("SLOTS"));
        node.disconnect();
        return failure === undefined ? undefined : `${serverOf(node)}: ${failure}`;
      }),
    );
    return reasons.find((reason) => reason !== undefined) ?? unreachable;
  }

  /** The least first: of who has not signed in, Redis takes no long command, and says something else than that. */
  async #visit(primary: Redis): Promise<void> {
    const { kind, user, password } = this.#dependencies.deployment;
    await checkRights(primary, kind);
    // Not before: during its handshake, ioredis sends an AUTH of ours among its own.
    if (password !== "" && !this.#loaded.has(primary)) await requireSignIn(primary, user, password);
    if (kind === "sentinel" && !this.#loaded.has(primary)) await refuseReplica(primary);
    await writeNothing(primary);
    if (this.#loaded.has(primary)) return;
    for (const { source } of Object.values(this.#dependencies.scripts)) await primary.script("LOAD", source);
    this.#loaded.add(primary);
    primary.once("close", () => this.#loaded.delete(primary));
  }

  #note(connection: Redis | Cluster, error: Error): void {
    if (!isOffline(error)) this.#reported.set(connection, this.#describe(connection, error));
  }

  #describe(connection: Redis | Cluster, error: unknown): string {
    if (isOffline(error)) return this.#reported.get(connection) ?? unreachable;
    const { tls, password } = this.#dependencies.deployment;
    const isNew = connection instanceof Cluster || !this.#loaded.has(connection);
    return describeFailure(error, { server: serverOf(connection), tls, signsIn: password !== "", isNew });
  }

  #become(error: string | undefined): void {
    const state = error === undefined ? "ok" : "failing";
    const former = this.#health;
    const changed = former.state !== state;
    this.#health = { state, sinceMs: changed ? this.#dependencies.now() : former.sinceMs, error };
    if (changed) this.#dependencies.onHealth(this.#health, former.state);
  }
}

/** host:port, where it is known. */
function serverOf(connection: Redis | Cluster): string {
  if (connection instanceof Cluster) return "any node of the cluster";
  const { host, port, sentinels } = connection.options;
  return sentinels ? "the primary that the sentinels name" : `${host}:${port}`;
}

/** Where Redis has no password, ioredis goes on unsigned after its own AUTH; gateways do not. */
async function requireSignIn(server: Redis, user: string, password: string): Promise<void> {
  try {
    await (user === "" ? server.auth(password) : server.auth(user, password));
  } catch (error) {
    throw isOffline(error) || !(error instanceof Error) ? error : new Error(`auth: ${error.message}`);
  }
}

/** Asks for the map of slots, so that primaries that died or took over since are among the nodes. */
function refreshSlots(cluster: Cluster): Promise<void> {
  return new Promise((resolve, reject) => {
    cluster.refreshSlotsCache((error) => (error ? reject(error) : resolve()));
  });
}

/** @throws Error where there are slots that no server has */
async function requireAllSlots(node: Redis): Promise<void> {
  const ranges = (await node.cluster("SLOTS")) as [first: number, last: number][];
  const count = ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  if (count < slotCount) throw new Error(`nobody serves ${slotCount - count} of ${slotCount} slots`);
}

/** Writes as a counter is written, and changes nothing: a replica refuses, as does a node whose cluster is down. */
async function writeNothing(primary: Redis): Promise<void> {
  try {
    await primary.del(probeKey);
  } catch (error) {
    // Of a Cluster, another node may have this key; this one is up and knows.
    if (!(error instanceof Error) || !/^(MOVED|ASK) /.test(error.message)) throw error;
  }
}

/** A deposed primary would lose what it is told when it follows the new one. */
async function refuseReplica(server: Redis): Promise<void> {
  const [role] = (await server.role()) as [string];
  if (role === "master") return;
  server.disconnect(true);
  throw new Error(`expected a primary, got a ${role}`);
}
