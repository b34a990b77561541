import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import { readVectors } from "../../parity/vectors.ts";

describe("an address is counted by its network:", () => {
  for (const { address, v4Bits, v6Bits, network } of readVectors("ip-prefixes").cases) {
    test(`${JSON.stringify(address)} at /${v4Bits} and /${v6Bits} is ${JSON.stringify(network)}`, () => {
      expect(ipPrefix(address, v4Bits, v6Bits)).toBe(network);
    });
  }
});

const groupsOf = (address: bigint) =>
  Array.from({ length: 8 }, (_, i) => ((address >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));

const v6Addresses = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).filter((address) => address >> 32n !== 0xffffn);

describe("for all IPv6 addresses", () => {
  test("two have the same text exactly if they share the prefix", () => {
    const pair = fc.tuple(v6Addresses, fc.nat(127), fc.nat(128));
    fc.assert(
      fc.property(pair, ([address, flippedBit, bits]) => {
        const other = address ^ (1n << BigInt(127 - flippedBit));
        fc.pre(other >> 32n !== 0xffffn);
        const texts = [address, other].map((one) => ipPrefix(groupsOf(one).join(":"), 32, bits));
        expect(texts[0] === texts[1]).toBe(flippedBit >= bits);
      }),
      { numRuns: 1_000 },
    );
  });

  test("every spelling of one has the same text", () => {
    const spelled = fc.tuple(v6Addresses, fc.nat(7), fc.integer({ min: 1, max: 8 }), fc.boolean());
    fc.assert(
      fc.property(spelled, ([random, from, length, upperCase]) => {
        const groups = groupsOf(random).map((group, i) => (i >= from && i < from + length ? "0" : group));
        fc.pre(!(groups.slice(0, 5).every((group) => group === "0") && groups[5] === "ffff"));
        const until = Math.min(from + length, 8);
        const short = `${groups.slice(0, from).join(":")}::${groups.slice(until).join(":")}`;
        const padded = groups.map((group) => group.padStart(4, "0")).join(":");
        const whole = ipPrefix(groups.join(":"), 32, 128);
        expect(ipPrefix(short, 32, 128)).toBe(whole);
        expect(ipPrefix(upperCase ? padded.toUpperCase() : padded, 32, 128)).toBe(whole);
      }),
      { numRuns: 1_000 },
    );
  });
});

test("for all IPv4 addresses, two have the same text exactly if they share the prefix, mapped or not", () => {
  const pair = fc.tuple(fc.nat(2 ** 32 - 1), fc.nat(31), fc.nat(32), fc.boolean());
  const dotted = (address: number) => [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join(".");
  fc.assert(
    fc.property(pair, ([address, flippedBit, bits, mapped]) => {
      const other = (address ^ (1 << (31 - flippedBit))) >>> 0;
      const network = ipPrefix(dotted(address), bits, 64);
      const otherNetwork = ipPrefix(mapped ? `::ffff:${dotted(other)}` : dotted(other), bits, 64);
      expect(network === otherNetwork).toBe(flippedBit >= bits);
    }),
    { numRuns: 1_000 },
  );
});

test("a text that is not an address is its own network", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      fc.pre(!/^[0-9a-f.:]*$/i.test(text));
      expect(ipPrefix(text, 24, 56)).toBe(text);
    }),
  );
});
