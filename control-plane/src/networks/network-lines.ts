// Writes a list of networks as gateways get it: a line for each block of ranges.

import { v4Digits, v6Digits } from "@sluice/limiter/key/address-ranges.ts";
import { beginOfBlock, nameOfNetworks, type SnapshotNetworks } from "@sluice/limiter/state/entries.ts";
import { blocksOf, type Ranges } from "./network-ranges.ts";

/** @param ranges as JSON @returns the lines, JSON each, by the names of their entries */
export function networkLines(app: string, networks: string, ranges: string): Map<string, string> {
  const { v4, v6 } = JSON.parse(ranges) as Ranges;
  const blocks: SnapshotNetworks[] = [
    ...blocksOf(v4, v4Digits).map((block) => ({ app, networks, family: "ipv4" as const, ranges: block })),
    ...blocksOf(v6, v6Digits).map((block) => ({ app, networks, family: "ipv6" as const, ranges: block })),
  ];
  return new Map(blocks.map((block) => [nameOfNetworks(app, networks, beginOfBlock(block)), JSON.stringify(block)]));
}
