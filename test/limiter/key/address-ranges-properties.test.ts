// Networks as sorted ranges: a search finds what a comparison with each network finds.

import fc from "fast-check";
import { expect, test } from "vitest";
import { blocksOf, isBlock, isInBlocks, v4Digits, v6Digits } from "../../../limiter/src/key/address-ranges.ts";
import { type Cidr, containsAddress, parseCidr } from "../../../limiter/src/key/cidr.ts";
import { addressGroups } from "../../../limiter/src/key/ip-prefix.ts";

/** Few different bytes, so that networks overlap, touch and contain each other. */
const byte = fc.constantFrom(0, 1, 127, 128, 254, 255);
const v4 = fc.array(byte, { minLength: 4, maxLength: 4 }).map((bytes) => bytes.join("."));
const group = fc.constantFrom("0", "1", "7fff", "8000", "ffff");
const v6 = fc.array(group, { minLength: 8, maxLength: 8 }).map((groups) => groups.join(":"));
/** A random IPv6 address may be an IPv4-mapped one, which has no shorter networks than of 96 bits. */
const network = fc
  .oneof(
    fc.tuple(v4, fc.integer({ min: 0, max: 32 })).map(([address, bits]) => `${address}/${bits}`),
    fc.tuple(v6, fc.integer({ min: 0, max: 128 })).map(([address, bits]) => `${address}/${bits}`),
    fc.tuple(v4, fc.integer({ min: 96, max: 128 })).map(([address, bits]) => `::ffff:${address}/${bits}`),
  )
  .filter((text) => parseCidr(text) !== undefined);

test("a search finds what a comparison with every network finds", () => {
  fc.assert(
    fc.property(
      fc.array(network, { maxLength: 30 }),
      fc.array(fc.oneof(v4, v6), { maxLength: 30 }),
      (networks, asked) => {
        const blocks = blocksOf(networks);
        for (const block of blocks.v4) expect(isBlock(block, v4Digits)).toBe(true);
        for (const block of blocks.v6) expect(isBlock(block, v6Digits)).toBe(true);
        const read = networks.map((text) => parseCidr(text) as Cidr);
        for (const address of asked) {
          expect(isInBlocks(blocks, addressGroups(address) as number[])).toBe(
            read.some((one) => containsAddress(one, address)),
          );
        }
      },
    ),
    { numRuns: 2_000 },
  );
});
