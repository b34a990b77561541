// Networks and named lists of networks, and the test whether an address is in any of them: it takes one lookup for each prefix length
// that occurs, and one in each list.

import { type Cidr, parseCidr } from "./cidr.ts";
import { addressGroups, maskGroups } from "./ip-prefix.ts";
import { isInLists, type ListReference, type ListScope, referenceOf, referredList } from "./network-lists.ts";

export interface Networks {
  readonly v4: NetworksOfLength[];
  readonly v6: NetworksOfLength[];
  /** By name. Undefined: none is referred to. */
  references: ListReference[] | undefined;
  /** Undefined: references lead nowhere. */
  readonly scope: ListScope | undefined;
}

interface NetworksOfLength {
  readonly bits: number;
  /** When each network is over. */
  readonly known: Record<string, number>;
  /** How many there are. */
  count: number;
}

export function noNetworks(scope?: ListScope): Networks {
  return { v4: [], v6: [], references: undefined, scope };
}

/** @param texts valid CIDRs, and references to lists */
export function networksOf(texts: readonly string[], scope?: ListScope): Networks {
  const networks = noNetworks(scope);
  for (const text of texts) setNetwork(networks, text, Number.POSITIVE_INFINITY);
  return networks;
}

/** Adds a network or a reference, or changes when it is over. @param text a valid CIDR, or a reference */
export function setNetwork(networks: Networks, text: string, untilSeconds: number): void {
  const list = referredList(text);
  if (list !== undefined) {
    setReference(networks, list, untilSeconds);
    return;
  }
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

function setReference(networks: Networks, list: string, untilSeconds: number): void {
  if (networks.scope === undefined) return;
  const references = networks.references ?? [];
  networks.references = references;
  // By name, so that the order does not depend on that in which they came.
  let place = 0;
  while (place < references.length && (references[place] as ListReference).name < list) place += 1;
  const reference = referenceOf(networks.scope.app, list, untilSeconds);
  references.splice(place, references[place]?.name === list ? 1 : 0, reference);
}

/** @param text what was added */
export function removeNetwork(networks: Networks, text: string): void {
  const list = referredList(text);
  if (list !== undefined) {
    const left = (networks.references ?? []).filter(({ name }) => name !== list);
    networks.references = left.length === 0 ? undefined : left;
    return;
  }
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
export function isWithin({ v4, v6, references, scope }: Networks, address: string, nowSeconds = 0): boolean {
  if (v4.length === 0 && v6.length === 0 && references === undefined) return false;
  const groups = addressGroups(address);
  if (groups === undefined) return false;
  // Before the groups are cleared.
  if (references !== undefined && scope !== undefined && isInLists(scope.lists, references, groups, nowSeconds))
    return true;
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
