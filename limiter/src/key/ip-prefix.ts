// Finds the network that an address is counted by: IPv4 by the whole address and IPv6 by its /64, unless the policy says
// otherwise, because one subscriber commonly holds a whole /64. An IPv4-mapped IPv6 address counts as the IPv4 address.

/**
 * @param address as nginx writes $remote_addr
 * @returns a canonical text for the network, the same for every address in it; the text itself if it is not an address
 */
export function ipPrefix(address: string, v4Bits: number, v6Bits: number): string {
  if (address.indexOf(":") < 0) return v4Prefix(address, v4Bits);
  const groups = parseV6(address);
  if (groups === undefined) return address;
  if (isV4Mapped(groups)) return v4Prefix(mappedV4(groups), v4Bits);
  maskGroups(groups, v6Bits);
  let text = "";
  for (let i = 0; i < 8; i++) text += (i === 0 ? "" : ":") + hex(groups[i] as number);
  return `${text}/${v6Bits}`;
}

/**
 * Returns an address in groups of 16 bits: two for IPv4, which includes IPv4-mapped addresses, or eight. Undefined: it is not an
 * address.
 */
export function addressGroups(address: string): number[] | undefined {
  if (!address.includes(":")) {
    const bytes = parseV4(address);
    return bytes === undefined ? undefined : v4Groups(bytes);
  }
  const groups = parseV6(address);
  return groups !== undefined && isV4Mapped(groups) ? groups.slice(6) : groups;
}

/** Clears everything after the first `bits`. */
export function maskGroups(groups: number[], bits: number): void {
  for (let i = 0; i < groups.length; i++) {
    const keep = Math.max(0, Math.min(16, bits - i * 16));
    const step = 2 ** (16 - keep);
    const group = groups[i] as number;
    groups[i] = group - (group % step);
  }
}

function v4Groups(bytes: readonly number[]): number[] {
  return [(bytes[0] as number) * 256 + (bytes[1] as number), (bytes[2] as number) * 256 + (bytes[3] as number)];
}

function v4Prefix(address: string, bits: number): string {
  if (bits === 32) return address;
  const bytes = parseV4(address);
  if (bytes === undefined) return address;
  let text = "";
  for (let i = 0; i < 4; i++) {
    const keep = Math.max(0, Math.min(8, bits - i * 8));
    const step = 2 ** (8 - keep);
    const byte = bytes[i] as number;
    text += `${i === 0 ? "" : "."}${byte - (byte % step)}`;
  }
  return `${text}/${bits}`;
}

function isV4Mapped(groups: readonly number[]): boolean {
  for (let i = 0; i < 5; i++) {
    if (groups[i] !== 0) return false;
  }
  return groups[5] === 0xffff;
}

function mappedV4(groups: readonly number[]): string {
  const high = groups[6] as number;
  const low = groups[7] as number;
  return `${Math.floor(high / 256)}.${high % 256}.${Math.floor(low / 256)}.${low % 256}`;
}

function parseV4(text: string): number[] | undefined {
  const bytes: number[] = [];
  for (const part of text.split(".")) {
    const byte = parseDigits(part, 10, 3);
    if (byte === undefined || byte > 255) return undefined;
    bytes.push(byte);
  }
  return bytes.length === 4 ? bytes : undefined;
}

/** Returns the eight groups of an IPv6 address; understands "::" and a dotted tail. */
function parseV6(text: string): number[] | undefined {
  const gap = text.indexOf("::");
  if (gap < 0) {
    const groups = parseGroups(text, true);
    return groups !== undefined && groups.length === 8 ? groups : undefined;
  }
  const head = parseGroups(text.slice(0, gap), false);
  const tail = parseGroups(text.slice(gap + 2), true);
  if (head === undefined || tail === undefined || head.length + tail.length > 7) return undefined;
  const groups = head;
  const zeros = 8 - head.length - tail.length;
  for (let i = 0; i < zeros; i++) groups.push(0);
  for (const group of tail) groups.push(group);
  return groups;
}

/** @param isEnd whether these are the last groups: only there may IPv4's dotted form stand for two groups */
function parseGroups(text: string, isEnd: boolean): number[] | undefined {
  const groups: number[] = [];
  if (text === "") return groups;
  const parts = text.split(":");
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] as string;
    if (part.includes(".")) {
      if (!isEnd || i < parts.length - 1) return undefined;
      const bytes = parseV4(part);
      if (bytes === undefined) return undefined;
      for (const group of v4Groups(bytes)) groups.push(group);
    } else {
      const group = parseDigits(part, 16, 4);
      if (group === undefined) return undefined;
      groups.push(group);
    }
  }
  return groups;
}

/** @returns undefined if the text is empty, longer than `maxDigits` or contains anything but digits of the base */
export function parseDigits(text: string, base: number, maxDigits: number): number | undefined {
  if (text === "" || text.length > maxDigits) return undefined;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = digitOf(text.charCodeAt(i));
    if (digit < 0 || digit >= base) return undefined;
    value = value * base + digit;
  }
  return value;
}

function digitOf(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  if (code >= 65 && code <= 70) return code - 55;
  return -1;
}

export function hex(group: number): string {
  const digits = "0123456789abcdef";
  let text = "";
  let rest = group;
  while (rest > 0 || text === "") {
    const digit = rest % 16;
    text = digits.charAt(digit) + text;
    rest = (rest - digit) / 16;
  }
  return text;
}
