import { describe, expect, test } from "vitest";
import { containsAddress, parseCidr } from "../../../limiter/src/key/cidr.ts";

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
