// Which node of a Redis Cluster serves a slot, according to its nodes. A worker keeps the map until a node replies MOVED or
// fails.

import { type Address, type Deployment, reportedAddress } from "../../../limiter/src/protocol/redis-url.ts";
import { forgetOthers, type RedisServer, serverAt } from "./connection.ts";
import { discover, newDiscovery, queryFirstAnswering } from "./discovery.ts";

export type ClusterDeployment = Deployment & { kind: "cluster" };

/**
 * An entry of CLUSTER SLOTS: first and last slot, then the primary's endpoint (null: the node that replies) and port. Replicas
 * follow.
 */
type SlotRange = readonly [first: number, last: number, primary: readonly [endpoint: unknown, port: number]];

const discovery = newDiscovery();
let servers: Record<number, RedisServer | undefined> = {};
/** The nodes to query: the nodes of the map, then the seeds. */
let sources: readonly Address[] | undefined;
/** The index of the source that is queried first. */
let first = 0;
let doubted = false;

/** Returns the node that serves this slot, as far as known. Does not ask. */
export function knownServerOfSlot(slot: number): RedisServer | undefined {
  return servers[slot];
}

/** @returns the node that serves this slot, as far as known; or the error message */
export function serverOfSlot(
  deployment: ClusterDeployment,
  slot: number,
  deadlineMs: number,
  waitMs: number,
): LuaMultiReturn<[RedisServer | undefined, string | undefined]> {
  // If a node is known, requests use it while the new map is queried.
  const patienceMs = servers[slot] === undefined ? waitMs : 0;
  if (doubted || patienceMs > 0) discover(discovery, deadlineMs, patienceMs, () => learnSlots(deployment, deadlineMs));
  const server = servers[slot];
  if (server !== undefined) return $multi(server, undefined);
  return $multi(undefined, `cluster: ${discovery.failure ?? `no node serves slot ${slot}`}`);
}

/**
 * Returns another node for this slot after one that failed. This queries the map, or waits for a query that is running. While a
 * query runs and the breaker of the failed node is open, no request waits.
 *
 * @param waitMs the longest to wait for a query of the map
 * @returns the same node if no other is known
 */
export function otherServerOfSlot(
  deployment: ClusterDeployment,
  slot: number,
  failed: RedisServer,
  deadlineMs: number,
  waitMs: number,
): RedisServer | undefined {
  if (servers[slot] === failed && !(discovery.running && failed.breaker.open)) {
    discover(discovery, deadlineMs, waitMs, () => learnSlots(deployment, deadlineMs));
  }
  return servers[slot];
}

/** Called when a node replies that this slot is elsewhere; other slots have probably moved too. */
export function slotMoved(slot: number, server: RedisServer): void {
  servers[slot] = server;
  server.replacedAtSeconds = undefined;
  doubted = true;
}

/** Called when a node failed or serves no slots now: the map is queried again, beginning with another node. */
export function doubtSlots(): void {
  if (!doubted) first += 1;
  doubted = true;
}

/**
 * Asks the nodes that the URL names, although those of the map answer: the names may lead to another cluster by now. Yields.
 *
 * @returns the error message
 */
export function askForSlots(deployment: ClusterDeployment, deadlineMs: number): string | undefined {
  if (sources === undefined) return undefined;
  return learnSlotsFrom(deployment, deployment.seeds.concat(sources), 0, deadlineMs);
}

function learnSlots(deployment: ClusterDeployment, deadlineMs: number): string | undefined {
  return learnSlotsFrom(deployment, sources ?? deployment.seeds, first, deadlineMs);
}

function learnSlotsFrom(
  deployment: ClusterDeployment,
  asked: readonly Address[],
  from: number,
  deadlineMs: number,
): string | undefined {
  const { access, seeds } = deployment;
  const [map, index, failure] = queryFirstAnswering<Record<number, RedisServer>>(
    access,
    asked,
    from,
    deadlineMs,
    (redis, source) => {
      const [reply, replyFailure] = redis.cluster("slots");
      if (!reply) return $multi(undefined, replyFailure);
      const ranges = reply as readonly SlotRange[];
      if (ranges.length === 0) return $multi(undefined, "serves no slots and knows no node that does");
      const reported: Record<number, RedisServer> = {};
      const nodes: RedisServer[] = [];
      for (const [firstSlot, lastSlot, [endpoint, port]] of ranges) {
        const address = reportedAddress(type(endpoint) === "string" ? (endpoint as string) : "", port, source);
        const server = serverAt(access, address);
        if (!nodes.includes(server)) nodes.push(server);
        for (let slot = firstSlot; slot <= lastSlot; slot++) reported[slot] = server;
      }
      forgetOthers(access, nodes);
      sources = nodes.map(({ address }) => address).concat(seeds);
      return $multi(reported, undefined);
    },
  );
  if (map === undefined) return failure;
  first = sources === asked ? index : 0;
  servers = map;
  doubted = false;
  return undefined;
}
