// Networks in CIDR notation, and which addresses are in them. An IPv4-mapped IPv6 address is the IPv4 address, in a
// network as in a request; ::/0 is every IPv6 address and no IPv4 one.

import { addressGroups, maskGroups } from "./ip-prefix.ts";

export interface Cidr {
  /** Of 16 bits, cleared beyond `bits`: two of IPv4, eight of IPv6. */
  readonly groups: readonly number[];
  readonly bits: number;
}

/**
 * @param text "10.0.0.0/8", "2001:db8::/32", or an address, which is a network of one. What stands beyond the length is
 *   cleared: "10.1.2.3/8" is 10.0.0.0/8.
 * @returns undefined when the text is neither
 */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf("/");
  const address = slash < 0 ? text : text.slice(0, slash);
  const groups = addressGroups(address);
  if (groups === undefined) return undefined;
  const most = groups.length * 16;
  // Of an IPv4-mapped address the length counts the 96 bits before it.
  const mapped = groups.length === 2 && address.includes(":") ? 96 : 0;
  const bits = slash < 0 ? most : lengthOf(text.slice(slash + 1)) - mapped;
  if (!(bits >= 0 && bits <= most)) return undefined;
  maskGroups(groups, bits);
  return { groups, bits };
}

/** @param address as nginx writes $remote_addr; what is none is in no network */
export function containsAddress({ groups, bits }: Cidr, address: string): boolean {
  const own = addressGroups(address);
  if (own === undefined || own.length !== groups.length) return false;
  maskGroups(own, bits);
  for (let i = 0; i < groups.length; i++) {
    if (own[i] !== groups[i]) return false;
  }
  return true;
}

/** NaN: it is none. */
function lengthOf(digits: string): number {
  if (digits === "" || digits.length > 3) return Number.NaN;
  let length = 0;
  for (let i = 0; i < digits.length; i++) {
    const code = digits.charCodeAt(i);
    if (code < 48 || code > 57) return Number.NaN;
    length = length * 10 + (code - 48);
  }
  return length;
}
