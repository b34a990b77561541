// Many networks, and whether an address is in any: a look into a table for each prefix length that there is.

import { type Cidr, parseCidr } from "./cidr.ts";
import { addressGroups, maskGroups } from "./ip-prefix.ts";

export interface Networks {
  readonly v4: readonly NetworksOfLength[];
  readonly v6: readonly NetworksOfLength[];
}

interface NetworksOfLength {
  readonly bits: number;
  readonly known: Record<string, boolean>;
}

/** @param texts valid CIDRs */
export function networksOf(texts: readonly string[]): Networks {
  const v4: NetworksOfLength[] = [];
  const v6: NetworksOfLength[] = [];
  for (const text of texts) {
    const { groups, bits } = parseCidr(text) as Cidr;
    const lengths = groups.length === 2 ? v4 : v6;
    let length = lengths.find((one) => one.bits === bits);
    if (length === undefined) {
      length = { bits, known: {} };
      lengths.push(length);
    }
    length.known[nameOf(groups)] = true;
  }
  // Longest first: an address is cleared bit by bit, and never made anew.
  v4.sort((a, b) => b.bits - a.bits);
  v6.sort((a, b) => b.bits - a.bits);
  return { v4, v6 };
}

/** @param address as nginx writes $remote_addr; what is none is in no network */
export function isWithin({ v4, v6 }: Networks, address: string): boolean {
  if (v4.length === 0 && v6.length === 0) return false;
  const groups = addressGroups(address);
  if (groups === undefined) return false;
  for (const { bits, known } of groups.length === 2 ? v4 : v6) {
    maskGroups(groups, bits);
    if (known[nameOf(groups)] === true) return true;
  }
  return false;
}

function nameOf(groups: readonly number[]): string {
  return groups.join(":");
}
