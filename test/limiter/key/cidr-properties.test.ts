// Networks, held against what Node finds in them.

import { BlockList, isIPv4 } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Cidr, containsAddress, parseCidr } from "../../../limiter/src/key/cidr.ts";
import { isWithin, networksOf } from "../../../limiter/src/key/networks.ts";

/** These are close to each other, so that many are in a network. */
const v4 = fc
  .tuple(...Array.from({ length: 4 }, () => fc.constantFrom(0, 1, 127, 128, 255)))
  .map((bytes) => bytes.join("."));
const v6 = fc
  .tuple(...Array.from({ length: 8 }, () => fc.constantFrom("0", "1", "7fff", "8000", "ffff")))
  .map((groups) => groups.join(":"))
  .filter((text) => !text.startsWith("0:0:0:0:0:ffff:"));
const cidr = fc.oneof(
  fc.tuple(v4, fc.nat(32)).map(([address, bits]) => `${address}/${bits}`),
  fc.tuple(v6, fc.nat(128)).map(([address, bits]) => `${address}/${bits}`),
);

test("several networks contain exactly the addresses that Node finds in them", () => {
  fc.assert(
    fc.property(fc.array(cidr, { maxLength: 8 }), fc.oneof(v4, v6), (cidrs, address) => {
      // Node finds IPv4 addresses in ::/0 too.
      const list = new BlockList();
      const family = isIPv4(address) ? "ipv4" : "ipv6";
      for (const text of cidrs) {
        const [network, bits] = text.split("/") as [string, string];
        if (isIPv4(network) === isIPv4(address)) list.addSubnet(network, Number(bits), family);
      }
      const expected = list.check(address, family);
      expect(isWithin(networksOf(cidrs), address)).toBe(expected);
      expect(cidrs.some((text) => containsAddress(parseCidr(text) as Cidr, address))).toBe(expected);
    }),
    { numRuns: 5_000 },
  );
});
