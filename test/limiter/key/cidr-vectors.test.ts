import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Cidr, containsAddress, formatCidr, parseCidr } from "../../../limiter/src/key/cidr.ts";
import { ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import { readVectors } from "../../parity/vectors.ts";

const { valid, invalid, addresses } = readVectors("cidrs");

describe("a network has one canonical text:", () => {
  test.each(valid)("$text is $network", ({ text, network }) =>
    expect(formatCidr(parseCidr(text) as Cidr)).toBe(network),
  );
});

test.each(invalid)("%j is not a network", (text) => expect(parseCidr(text)).toBeUndefined());

describe("an address is in a network or outside it:", () => {
  test.each(addresses)("$network", ({ network, within = [], without = [] }) => {
    const cidr = parseCidr(network) as Cidr;
    const found = [...within, ...without].filter((address) => containsAddress(cidr, address));
    expect(found).toEqual(within);
  });
});

const v4 = fc.nat(2 ** 32 - 1).map((n) => [24, 16, 8, 0].map((shift) => (n >>> shift) & 255).join("."));
const v6 = fc.array(fc.nat(0xffff), { minLength: 8, maxLength: 8 }).map((g) => g.map((n) => n.toString(16)).join(":"));
const networks = fc.oneof(fc.tuple(v4, fc.nat(32)), fc.tuple(v6, fc.nat(128)));

test("an address is in a network exactly if keys of that length would count it with the network's own", () => {
  // The addresses are near the network, or none would ever be in it.
  const nearby = fc.tuple(networks, fc.nat(127), fc.boolean()).map(([[address, bits], flipped, mapped]) => {
    const isV4 = !address.includes(":");
    const width = isV4 ? 8 : 16;
    const parts = address.split(isV4 ? "." : ":").map((part) => Number.parseInt(part, isV4 ? 10 : 16));
    const at = flipped % (isV4 ? 32 : 128);
    const part = Math.floor(at / width);
    parts[part] = (parts[part] as number) ^ (1 << (width - 1 - (at % width)));
    const other = parts.map((n) => n.toString(isV4 ? 10 : 16)).join(isV4 ? "." : ":");
    return { address, bits, other: isV4 && mapped ? `::ffff:${other}` : other };
  });
  fc.assert(
    fc.property(nearby, ({ address, bits, other }) => {
      const cidr = parseCidr(`${address}/${bits}`);
      const prefix = (one: string) => ipPrefix(one, Math.min(bits, 32), bits);
      expect(cidr !== undefined && containsAddress(cidr, address)).toBe(true);
      expect(cidr !== undefined && containsAddress(cidr, other)).toBe(prefix(address) === prefix(other));
    }),
    { numRuns: 1_000 },
  );
});

test("a network's text is read as the same network", () => {
  fc.assert(
    fc.property(networks, ([address, bits]) => {
      const cidr = parseCidr(`${address}/${bits}`) as Cidr;
      expect(parseCidr(formatCidr(cidr))).toEqual(cidr);
    }),
    { numRuns: 1_000 },
  );
});
