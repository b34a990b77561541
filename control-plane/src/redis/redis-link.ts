// The control plane's connection to Redis, which has a greatest age: the name of Redis may lead to another server by now. It keeps the gateways' scripts loaded there, checks whether Redis does what
// counters need, and runs scripts. The rest of the control plane works without Redis: nothing waits for it, and a command
// fails at once while Redis cannot be reached.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Cluster, type Redis } from "ioredis";
import { clientFor, nodeAt } from "./redis-client.ts";
import { clauseFor, describeFailure, isOffline, isUnknownPrimary, RedisFailure } from "./redis-failure.ts";
import { checkRights, probeKey } from "./redis-rights.ts";
import type { RedisScript, RedisScripts } from "./redis-scripts.ts";
import type { RedisDeployment } from "./redis-url.ts";

export interface RedisHealth {
  /** connecting: the state is not known yet. */
  readonly state: "connecting" | "ok" | "failing";
  readonly sinceMs: number;
  /** The last failure, while the state is failing. */
  readonly error: string | undefined;
}

export interface RedisLinkDependencies {
  readonly deployment: RedisDeployment;
  readonly scripts: RedisScripts;
  /** Returns milliseconds since 1970. */
  now(): number;
  /** Called whenever the state changes. */
  onHealth(health: RedisHealth, former: RedisHealth["state"]): void;
}

/** How often every primary is checked for what counters need, and gets the scripts if its connection is new. */
const lookEveryMs = 1_000;
/** A random part of it is taken off each time. */
const greatestAgeMs = 30_000;
const randomPart = 1 / 3;
const retryAfterMs = 5_000;
/** How long a new connection may take. */
const readyWithinMs = 5_000;
const identityKey = "sluice:epoch";
const slotCount = 16_384;
const unreachable = "no connection";

export class RedisLink {
  readonly #dependencies: RedisLinkDependencies;
  #client: Redis | Cluster;
  /** Connected, and checked: takes the place of the client when nothing is being checked. */
  #prepared: Redis | Cluster | undefined;
  #isPreparing = false;
  #renewAtMs: number;
  /** All that are open, with the number of commands under way. A client that was replaced is closed after the last one. */
  readonly #underWay = new Map<Redis | Cluster, number>();
  /** Connections whose server has got the scripts since the connection was opened. */
  readonly #loaded = new WeakSet<Redis>();
  /** The last error that each connection reported. It is the reason to give when a command finds the connection closed. */
  readonly #reported = new WeakMap<Redis | Cluster, string>();
  readonly #timer: NodeJS.Timeout;
  #health: RedisHealth;
  #identity: string | undefined;
  #looking = false;
  #looksAgain = false;
  #stopped = false;

  constructor(dependencies: RedisLinkDependencies) {
    this.#dependencies = dependencies;
    this.#health = { state: "connecting", sinceMs: dependencies.now(), error: undefined };
    this.#client = this.#open();
    this.#renewAtMs = performance.now() + nextAgeMs();
    this.#timer = setInterval(() => {
      void this.#look();
      if (performance.now() >= this.#renewAtMs) void this.#prepare();
    }, lookEveryMs);
    this.#timer.unref();
  }

  #open(): Redis | Cluster {
    const client = clientFor(this.#dependencies.deployment);
    this.#underWay.set(client, 0);
    // Without a listener, an error event would end the process.
    client.on("error", (error: Error) => this.#note(client, error));
    client.on("+node", (node: Redis) => node.on("error", (error: Error) => this.#note(node, error)));
    client.on("sentinelError", (error: Error) => {
      if (isUnknownPrimary(error)) this.#note(client, error);
    });
    client.on("ready", () => {
      if (client === this.#client) void this.#look();
    });
    return client;
  }

  #close(client: Redis | Cluster): void {
    this.#underWay.delete(client);
    client.disconnect();
  }

  /** Connects anew, to where the name of Redis leads now. If that fails, the present connection stays in use. */
  async #prepare(): Promise<void> {
    if (this.#isPreparing || this.#prepared !== undefined) return;
    this.#isPreparing = true;
    const next = this.#open();
    const works = (await isReadySoon(next)) && (await this.#visitPrimaries(next)) === undefined;
    this.#isPreparing = false;
    this.#renewAtMs = performance.now() + (works ? nextAgeMs() : retryAfterMs);
    if (!works || this.#stopped) {
      this.#close(next);
      return;
    }
    this.#prepared = next;
    void this.#look();
  }

  /** Commands that are under way end where they began. */
  #changeOver(): void {
    const next = this.#prepared;
    if (next === undefined) return;
    const former = this.#client;
    this.#client = next;
    this.#prepared = undefined;
    if (this.#underWay.get(former) === 0) this.#close(former);
  }

  get health(): RedisHealth {
    return this.#health;
  }

  /**
   * Runs a script on the server of its keys, which are all of one slot. It is sent only once: if the reply is lost, the
   * script may have changed the counter already.
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

  /** @param keys all of one slot @throws RedisFailure */
  async delete(keys: readonly string[]): Promise<void> {
    await this.#done((client) => client.del(...keys));
  }

  /** Sends a message to all who listen to the channel. @throws RedisFailure */
  async publish(channel: string, text: string): Promise<void> {
    await this.#done((client) => client.publish(channel, text));
  }

  /**
   * Names the data that Redis has, undefined until it is known. It is a text in Redis itself, so it is the same for everybody who
   * uses this Redis, and whichever server is the primary. If Redis lost everything, it is another one.
   */
  get identity(): string | undefined {
    return this.#identity;
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    for (const client of this.#underWay.keys()) client.disconnect();
  }

  async #done<Result>(ask: (client: Redis | Cluster) => Promise<Result>): Promise<Result> {
    const client = this.#client;
    this.#underWay.set(client, (this.#underWay.get(client) ?? 0) + 1);
    try {
      return await ask(client);
    } catch (error) {
      const description = this.#describe(client, error);
      // A Cluster does not say which node's connection it found closed.
      const cause = isOffline(error) ? (this.#health.error ?? description) : description;
      throw new RedisFailure(cause, clauseFor(cause));
    } finally {
      const left = (this.#underWay.get(client) ?? 1) - 1;
      this.#underWay.set(client, left);
      if (left === 0 && client !== this.#client) this.#close(client);
    }
  }

  /** Checks all primaries and updates the health. Never rejects. */
  async #look(): Promise<void> {
    if (this.#isFirstConnecting()) return;
    if (this.#looking) {
      this.#looksAgain = true;
      return;
    }
    this.#looking = true;
    do {
      this.#looksAgain = false;
      this.#changeOver();
      const failure = await this.#visitPrimaries(this.#client);
      // If the server is lost in between, the next look says so.
      if (failure === undefined) await this.#identify().catch(() => undefined);
      if (!this.#stopped) this.#become(failure);
    } while (this.#looksAgain && !this.#stopped);
    this.#looking = false;
  }

  /** Returns whether the first connection attempt is still open and nothing has failed yet. */
  #isFirstConnecting(): boolean {
    const client = this.#client;
    const connecting = client.status === "connecting" || client.status === "connect";
    return !(client instanceof Cluster) && connecting && !this.#reported.has(client);
  }

  /** @returns the failure, if there is one */
  async #visitPrimaries(client: Redis | Cluster): Promise<string | undefined> {
    if (!(client instanceof Cluster)) return this.#failureOf(client, () => this.#visit(client));
    const failure = await this.#failureOf(client, () => refreshSlots(client));
    if (failure !== undefined) return failure === unreachable ? this.#whyUnreachable() : failure;
    const primaries = client.nodes("master");
    if (primaries.length === 0) return "no node of the cluster has slots";
    const all = await Promise.all(primaries.map((primary) => this.#failureAt(primary)));
    const failures = all.filter((failure) => failure !== undefined);
    // Prefers the failure that took the cluster down to CLUSTERDOWN, which its other nodes report.
    return failures.find((failure) => !failure.includes("CLUSTERDOWN")) ?? failures[0];
  }

  /** Reads the identity, which gateways write too (gateway/src/redis/epoch.ts). Whoever comes first chooses it. */
  async #identify(): Promise<void> {
    const found = await this.#client.get(identityKey);
    if (found === null) await this.#client.set(identityKey, randomUUID(), "NX");
    this.#identity = found ?? (await this.#client.get(identityKey)) ?? undefined;
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

  /** Checks one node of the cluster. */
  async #failureAt(node: Redis): Promise<string | undefined> {
    const failure = await this.#failureOf(node, async () => {
      await this.#visit(node);
      await requireAllSlots(node);
    });
    return failure === undefined ? undefined : `${serverOf(node)}: ${failure}`;
  }

  /** Asks each node of the URL directly for the reason, because ioredis does not pass the nodes' errors on for a Cluster. */
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

  /**
   * Does what counters need on one primary. Short commands come first: to a client that has not signed in, Redis
   * refuses a long command with another error than NOAUTH.
   */
  async #visit(primary: Redis): Promise<void> {
    const { kind, user, password } = this.#dependencies.deployment;
    await checkRights(primary, kind);
    // Only after the first command: during its handshake, ioredis would mix our AUTH with its own commands.
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

function nextAgeMs(): number {
  return greatestAgeMs * (1 - randomPart * Math.random());
}

async function isReadySoon(client: Redis | Cluster): Promise<boolean> {
  if (client.status === "ready") return true;
  try {
    await once(client, "ready", { signal: AbortSignal.timeout(readyWithinMs) });
    return true;
  } catch {
    return false;
  }
}

/** Returns host:port, if it is known. */
function serverOf(connection: Redis | Cluster): string {
  if (connection instanceof Cluster) return "any node of the cluster";
  const { host, port, sentinels } = connection.options;
  return sentinels ? "the primary that the sentinels name" : `${host}:${port}`;
}

/**
 * If Redis has no password, ioredis continues without signing in after its AUTH fails; gateways do not. So this signs in
 * again.
 */
async function requireSignIn(server: Redis, user: string, password: string): Promise<void> {
  try {
    await (user === "" ? server.auth(password) : server.auth(user, password));
  } catch (error) {
    throw isOffline(error) || !(error instanceof Error) ? error : new Error(`auth: ${error.message}`);
  }
}

/** Reloads the map of slots, so that primaries which took over or died since the last look are among the nodes. */
function refreshSlots(cluster: Cluster): Promise<void> {
  return new Promise((resolve, reject) => {
    cluster.refreshSlotsCache((error) => (error ? reject(error) : resolve()));
  });
}

/** @throws Error if no server serves some of the slots */
async function requireAllSlots(node: Redis): Promise<void> {
  const ranges = (await node.cluster("SLOTS")) as [first: number, last: number][];
  const count = ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  if (count < slotCount) throw new Error(`nobody serves ${slotCount - count} of ${slotCount} slots`);
}

/** Writes in the way counters do, but changes nothing. A replica refuses this, and so does a node whose cluster is down. */
async function writeNothing(primary: Redis): Promise<void> {
  try {
    await primary.del(probeKey);
  } catch (error) {
    // In a Cluster, this key may belong to another node; the reply still shows that this node works.
    if (!(error instanceof Error) || !/^(MOVED|ASK) /.test(error.message)) throw error;
  }
}

/**
 * Closes the connection to a server that is not a primary: a deposed primary loses its writes when it follows the new one.
 */
async function refuseReplica(server: Redis): Promise<void> {
  const [role] = (await server.role()) as [string];
  if (role === "master") return;
  server.disconnect(true);
  throw new Error(`expected a primary, got a ${role}`);
}
