import { BlockList, isIPv4 } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { containsAddress, parseCidr } from "../../../limiter/src/key/cidr.ts";
import { isWithin, networksOf } from "../../../limiter/src/key/networks.ts";

const contains = (cidr: string, address: string) => {
  const parsed = parseCidr(cidr);
  return parsed === undefined ? undefined : containsAddress(parsed, address);
};

describe("a network", () => {
  test("is an address and a length, or only an address", () => {
    expect(parseCidr("10.0.0.0/8")).toEqual({ groups: [2560, 0], bits: 8 });
    expect(parseCidr("192.0.2.1")).toEqual({ groups: [49152, 513], bits: 32 });
    expect(parseCidr("2001:db8::/32")).toEqual({ groups: [8193, 3512, 0, 0, 0, 0, 0, 0], bits: 32 });
    expect(parseCidr("::1")?.bits).toBe(128);
  });

  test("has no bits set beyond its length", () => {
    expect(parseCidr("10.1.2.3/8")).toEqual(parseCidr("10.0.0.0/8"));
    expect(parseCidr("2001:db8:ffff::1/33")).toEqual(parseCidr("2001:db8:8000::/33"));
    expect(parseCidr("255.255.255.255/0")).toEqual({ groups: [0, 0], bits: 0 });
  });

  test("of IPv4-mapped addresses is a network of IPv4", () => {
    expect(parseCidr("::ffff:10.0.0.0/104")).toEqual(parseCidr("10.0.0.0/8"));
    expect(parseCidr("::ffff:0:0/96")).toEqual(parseCidr("0.0.0.0/0"));
    expect(parseCidr("::ffff:10.0.0.1")).toEqual(parseCidr("10.0.0.1"));
    expect(parseCidr("::ffff:0:0/95")).toBeUndefined();
  });

  test.each(["", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0/8", "10.0.0.0/ 8"])(
    "is none in %j",
    (text) => expect(parseCidr(text)).toBeUndefined(),
  );

  test.each(["::/129", "::/", "::/1000", "::g/8", "localhost", "10.0.0.0/8x", "256.0.0.0/8", "unix:", "1.2.3.4.5/8"])(
    "is none in %j",
    (text) => expect(parseCidr(text)).toBeUndefined(),
  );

  test("contains the addresses with its prefix, of its own family", () => {
    expect(contains("10.0.0.0/8", "10.255.255.255")).toBe(true);
    expect(contains("10.0.0.0/8", "11.0.0.0")).toBe(false);
    expect(contains("10.0.0.0/8", "::ffff:10.0.0.1")).toBe(true);
    expect(contains("0.0.0.0/0", "::1")).toBe(false);
    expect(contains("::/0", "10.0.0.1")).toBe(false);
    expect(contains("::/0", "::ffff:10.0.0.1")).toBe(false);
    expect(contains("2001:db8::/32", "2001:DB8:1::")).toBe(true);
  });

  test("contains nothing that is not an address", () => {
    for (const text of ["", "unix:", "10.0.0", "localhost"]) expect(contains("0.0.0.0/0", text)).toBe(false);
  });
});

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
      expect(cidrs.some((text) => contains(text, address))).toBe(expected);
    }),
    { numRuns: 5_000 },
  );
});
