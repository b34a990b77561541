// Finds networks of a list: those that an address is in, or those that begin with a text.

import { type Cidr, parseCidr } from "@sluice/limiter/key/cidr.ts";
import { addressGroups, maskGroups } from "@sluice/limiter/key/ip-prefix.ts";

/** @param text an address; or the beginning of networks, of which "" is that of all */
export function findNetworks(networks: readonly string[], text: string): readonly string[] {
  const sought = text.trim().toLowerCase();
  if (sought === "") return networks;
  const address = addressGroups(sought);
  if (address === undefined) return networks.filter((network) => network.startsWith(sought));
  return networks.filter((network) => isIn(address, parseCidr(network) as Cidr));
}

function isIn(address: readonly number[], { groups, bits }: Cidr): boolean {
  if (address.length !== groups.length) return false;
  const masked = [...address];
  maskGroups(masked, bits);
  return masked.every((group, i) => group === groups[i]);
}
