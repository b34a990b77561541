// Networks as operators write them, "203.0.113.0/24" or "2001:db8::/32", and the test whether an address is in one. As in keys,
// an IPv4-mapped IPv6 address counts as the IPv4 address. An address without a length is the network of this address alone.

import { addressGroups, hex, maskGroups, parseDigits } from "./ip-prefix.ts";

export interface Cidr {
  /** Groups of 16 bits, cleared beyond `bits`: two for IPv4, eight for IPv6. */
  readonly groups: readonly number[];
  readonly bits: number;
}

export const cidrRule = 'an IPv4 or IPv6 network like "203.0.113.0/24" or "2001:db8::/32"';

/** Clears the bits beyond the length. @returns undefined if the text is not a network */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf("/");
  const address = slash < 0 ? text : text.slice(0, slash);
  const groups = addressGroups(address);
  // "010.0.0.1" is 10.0.0.1 to some programs and 8.0.0.1 to others.
  if (groups === undefined || (!address.includes(":") && dotted(groups) !== address)) return undefined;
  const longest = groups.length * 16;
  let bits = longest;
  if (slash >= 0) {
    const digits = text.slice(slash + 1);
    const given = parseDigits(digits, 10, 3);
    if (given === undefined || (digits.length > 1 && digits.startsWith("0"))) return undefined;
    // The first 96 bits of an IPv4-mapped address mark it as one: a network that lacks some of them is of neither kind.
    bits = longest === 32 && address.includes(":") ? given - 96 : given;
  }
  if (bits < 0 || bits > longest) return undefined;
  maskGroups(groups, bits);
  return { groups, bits };
}

/** Returns the only canonical form of a network: the same for all its spellings. */
export function formatCidr({ groups, bits }: Cidr): string {
  return `${groups.length === 2 ? dotted(groups) : shortestV6(groups)}/${bits}`;
}

/** @param address as nginx writes $remote_addr; a text that is not an address is in no network */
export function containsAddress(cidr: Cidr, address: string): boolean {
  const groups = addressGroups(address);
  return groups !== undefined && containsGroups(cidr, groups);
}

/** @param groups the address as addressGroups reads it: read once, it can be compared with many networks */
export function containsGroups(cidr: Cidr, groups: readonly number[]): boolean {
  if (groups.length !== cidr.groups.length) return false;
  let bits = cidr.bits;
  for (let i = 0; bits > 0; i++) {
    const step = bits < 16 ? 2 ** (16 - bits) : 1;
    const group = groups[i] as number;
    if (group - (group % step) !== cidr.groups[i]) return false;
    bits -= 16;
  }
  return true;
}

function dotted(groups: readonly number[]): string {
  const high = groups[0] as number;
  const low = groups[1] as number;
  return `${Math.floor(high / 256)}.${high % 256}.${Math.floor(low / 256)}.${low % 256}`;
}

/** RFC 5952: the first of the longest runs of two or more zeros becomes "::". */
function shortestV6(groups: readonly number[]): string {
  let runStart = 8;
  let runLength = 1;
  for (let i = 0; i < 8; i++) {
    let length = 0;
    while (i + length < 8 && groups[i + length] === 0) length += 1;
    if (length > runLength) {
      runStart = i;
      runLength = length;
    }
  }
  let text = "";
  for (let i = 0; i < 8; i++) {
    if (i === runStart) {
      text += "::";
      i += runLength - 1;
    } else {
      text += text === "" || text.endsWith("::") ? hex(groups[i] as number) : `:${hex(groups[i] as number)}`;
    }
  }
  return text;
}
