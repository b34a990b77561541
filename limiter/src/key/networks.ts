// Many networks, and the test whether an address is in any of them: it takes one lookup for each prefix length that occurs.

import { type Cidr, parseCidr } from "./cidr.ts";
import { addressGroups, maskGroups } from "./ip-prefix.ts";

export interface Networks {
  readonly v4: readonly NetworksOfLength[];
  readonly v6: readonly NetworksOfLength[];
}

interface NetworksOfLength {
  readonly bits: number;
  /** When each network is over. */
  readonly known: Record<string, number>;
}

/** @param texts valid CIDRs @param untilSeconds when each is over; absent: none ever is */
export function networksOf(texts: readonly string[], untilSeconds?: readonly number[]): Networks {
  const v4: NetworksOfLength[] = [];
  const v6: NetworksOfLength[] = [];
  for (let i = 0; i < texts.length; i++) {
    const { groups, bits } = parseCidr(texts[i] as string) as Cidr;
    const lengths = groups.length === 2 ? v4 : v6;
    let length = lengths.find((one) => one.bits === bits);
    if (length === undefined) {
      length = { bits, known: {} };
      lengths.push(length);
    }
    const name = nameOf(groups);
    const until = untilSeconds?.[i] ?? Number.POSITIVE_INFINITY;
    length.known[name] = Math.max(until, length.known[name] ?? until);
  }
  // The longest come first: so an address is cleared bit by bit, and never parsed again.
  v4.sort((a, b) => b.bits - a.bits);
  v6.sort((a, b) => b.bits - a.bits);
  return { v4, v6 };
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
