// Many networks, and the test whether an address is in any of them: it takes one lookup for each prefix length that occurs.

import { type Cidr, parseCidr } from "./cidr.ts";
import { addressGroups, maskGroups } from "./ip-prefix.ts";

export interface Networks {
  readonly v4: NetworksOfLength[];
  readonly v6: NetworksOfLength[];
}

interface NetworksOfLength {
  readonly bits: number;
  /** When each network is over. */
  readonly known: Record<string, number>;
  /** How many there are. */
  count: number;
}

export function noNetworks(): Networks {
  return { v4: [], v6: [] };
}

/** @param texts valid CIDRs */
export function networksOf(texts: readonly string[]): Networks {
  const networks = noNetworks();
  for (const text of texts) setNetwork(networks, text, Number.POSITIVE_INFINITY);
  return networks;
}

/** Adds a network, or changes when it is over. @param text a valid CIDR */
export function setNetwork(networks: Networks, text: string, untilSeconds: number): void {
  const { groups, bits } = parseCidr(text) as Cidr;
  const lengths = lengthsFor(networks, groups);
  let place = 0;
  // The longest come first: so an address is cleared bit by bit, and never parsed again.
  while (place < lengths.length && (lengths[place] as NetworksOfLength).bits > bits) place += 1;
  let length = lengths[place];
  if (length === undefined || length.bits !== bits) {
    length = { bits, known: {}, count: 0 };
    lengths.splice(place, 0, length);
  }
  const name = nameOf(groups);
  if (length.known[name] === undefined) length.count += 1;
  length.known[name] = untilSeconds;
}

/** @param text a valid CIDR that was added */
export function removeNetwork(networks: Networks, text: string): void {
  const { groups, bits } = parseCidr(text) as Cidr;
  const lengths = lengthsFor(networks, groups);
  const place = lengths.findIndex((one) => one.bits === bits);
  const length = lengths[place];
  const name = nameOf(groups);
  if (length === undefined || length.known[name] === undefined) return;
  delete length.known[name];
  length.count -= 1;
  if (length.count === 0) lengths.splice(place, 1);
}

function lengthsFor({ v4, v6 }: Networks, groups: readonly number[]): NetworksOfLength[] {
  return groups.length === 2 ? v4 : v6;
}

/** @param address as nginx writes $remote_addr; a text that is not an address is in no network */
export function isWithin({ v4, v6 }: Networks, address: string, nowSeconds = 0): boolean {
  if (v4.length === 0 && v6.length === 0) return false;
  const groups = addressGroups(address);
  if (groups === undefined) return false;
  for (const { bits, known } of groups.length === 2 ? v4 : v6) {
    maskGroups(groups, bits);
    const until = known[nameOf(groups)];
    if (until !== undefined && until > nowSeconds) return true;
  }
  return false;
}

function nameOf(groups: readonly number[]): string {
  return groups.join(":");
}
