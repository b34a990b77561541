import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { containsAddress, parseCidr } from "../../limiter/src/key/cidr.ts";
import { ipPrefix } from "../../limiter/src/key/ip-prefix.ts";

describe("a network has one text:", () => {
  test.each([
    ["203.0.113.7/24", "203.0.113.0/24"],
    ["203.0.113.7", "203.0.113.7/32"],
    ["255.255.255.255/0", "0.0.0.0/0"],
    ["10.255.0.1/9", "10.128.0.0/9"],
    ["2001:DB8:0:0:1::5/32", "2001:db8::/32"],
    ["2001:db8::1", "2001:db8::1/128"],
    ["::/0", "::/0"],
    ["::1/128", "::1/128"],
    ["1::/16", "1::/16"],
    ["1:0:0:2:0:0:0:3/128", "1:0:0:2::3/128"],
    ["1:0:0:2:3:0:0:4/128", "1::2:3:0:0:4/128"],
    ["1:0:2:3:4:5:6:7/128", "1:0:2:3:4:5:6:7/128"],
    ["::ffff:203.0.113.7/120", "203.0.113.0/24"],
    ["::ffff:cb00:7107", "203.0.113.7/32"],
    ["64:ff9b::192.0.2.33/96", "64:ff9b::/96"],
  ])("%s is %s", (written, text) => expect(parseCidr(written)?.text).toBe(text));
});

test.each([
  "",
  "/",
  "/24",
  "10.0.0.0/",
  "10.0.0.0/33",
  "10.0.0.0/-1",
  "10.0.0.0/08",
  "10.0.0.0/8/8",
  "10.0.0.0/8 ",
  " 10.0.0.0/8",
  "10.0.0/8",
  "010.0.0.0/8",
  "256.0.0.0/8",
  "::/129",
  "::ffff:10.0.0.0/95",
  "1.2.3.4::/64",
  "::1.2.3.4:5/64",
  "1:2:3:4:5:6:7/64",
  "1::2::3/64",
  "fe80::1%eth0/64",
  "example.com",
  "*",
])("%j is no network", (text) => expect(parseCidr(text)).toBeUndefined());

const v4 = fc.nat(2 ** 32 - 1).map((n) => [24, 16, 8, 0].map((shift) => (n >>> shift) & 255).join("."));
const v6 = fc.array(fc.nat(0xffff), { minLength: 8, maxLength: 8 }).map((g) => g.map((n) => n.toString(16)).join(":"));
const networks = fc.oneof(fc.tuple(v4, fc.nat(32)), fc.tuple(v6, fc.nat(128)));

test("an address is in a network exactly when keys of that length would count it with the network's own", () => {
  // Near each other, or none would ever be in it.
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

test("its text is the text of the same network", () => {
  fc.assert(
    fc.property(networks, ([address, bits]) => {
      const cidr = parseCidr(`${address}/${bits}`);
      expect(parseCidr(cidr?.text ?? "")).toEqual(cidr);
    }),
    { numRuns: 1_000 },
  );
});

test("no address is in a network of the other kind, and what is no address is in none", () => {
  for (const address of ["::1", "unix:", "", "10.0.0"]) {
    expect([address, containsAddress(parseCidr("0.0.0.0/0") as never, address)]).toEqual([address, false]);
  }
  expect(containsAddress(parseCidr("::/0") as never, "10.0.0.1")).toBe(false);
  expect(containsAddress(parseCidr("::/0") as never, "::ffff:10.0.0.1")).toBe(false);
});
