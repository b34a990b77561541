// The policies with which Sluice's variants are measured, as snapshots on a gateway's disk: no control plane is needed.

import { layOut } from "../limiter/src/protocol/frame-lines.ts";

/**
 * This bucket never refuses here, and its counter is never forgotten: a unit refills only after six seconds, so that a counter
 * is still in use when its key comes again, as a real one would be. A huge quota would never refuse either, but its counters
 * would be full again, and gone from the store, by the next request. lua/redis_each.lua uses the same bucket.
 */
const bucket = { name: "burst", algorithm: "token-bucket", quota: 10, window: "1m", burst: 100_000_000 };
const window = { name: "daily", algorithm: "fixed-window", quota: 1_000_000_000, window: "1d" };
/** The first requests use this up, and it refuses for the rest of the hour. */
export const spent = { name: "burst", algorithm: "token-bucket", quota: 1, window: "1h", burst: 2 };
/** Fast enough for leases to be useful. */
const hot = { name: "burst", algorithm: "token-bucket", quota: 1_000_000, window: "1s", burst: 1_000_000 };

export interface PolicyDocument {
  readonly name: string;
  readonly [field: string]: unknown;
}

export const policies = {
  node: [{ name: "node", key: ["ip"], limits: [bucket] }],
  nodeHostsKeys: [{ name: "node", key: ["host", "path"], limits: [bucket] }],
  nodeFixedWindow: [{ name: "node", key: ["ip"], limits: [window] }],
  nodeTwoLimits: [{ name: "node", key: ["ip"], limits: [bucket, window] }],
  nodeTwoPolicies: [
    { name: "node", key: ["ip"], limits: [bucket] },
    { name: "everybody", limits: [window] },
  ],
  nodeFlood: [{ name: "node", key: ["query:k"], limits: [spent] }],
  cluster: [{ name: "cluster", scope: "cluster", key: ["query:k"], limits: [bucket] }],
  clusterTwoPolicies: [
    { name: "cluster", scope: "cluster", key: ["query:k"], limits: [bucket] },
    { name: "address", scope: "cluster", key: ["ip"], limits: [window] },
  ],
  clusterFlood: [{ name: "cluster", scope: "cluster", key: ["query:k"], limits: [spent] }],
  clusterLeased: [{ name: "cluster", scope: "cluster", consistency: "leased", key: ["query:k"], limits: [hot] }],
  tenThousand: Array.from({ length: 10_000 }, (_, i) => ({
    name: `p${i}`,
    match: { hosts: [`h${Math.floor(i / 10)}.example`], paths: [`/sluice/${i % 10}`] },
    key: ["ip"],
    limits: [bucket],
  })),
} satisfies Record<string, readonly PolicyDocument[]>;

export function snapshotOf(documents: readonly PolicyDocument[]): string {
  const head = JSON.stringify({ type: "snapshot", epoch: "bench", revision: 1, format: 1 });
  return layOut("snapshot", head, {
    policies: documents.map((document) => JSON.stringify({ app: "default", document })),
  });
}
