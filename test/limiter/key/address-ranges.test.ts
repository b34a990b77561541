// Networks as sorted ranges: what a search finds, and which texts can be searched.

import { describe, expect, test } from "vitest";
import {
  blocksOf as manyBlocksOf,
  rangesOf,
  sortedRanges,
} from "../../../control-plane/src/networks/network-ranges.ts";
import {
  blocksOf,
  endOfBlock,
  isBlock,
  isInBlocks,
  merged,
  type RangeBlocks,
  rangeOf,
  v4Digits,
  v6Digits,
} from "../../../limiter/src/key/address-ranges.ts";
import { type Cidr, parseCidr } from "../../../limiter/src/key/cidr.ts";
import { addressGroups } from "../../../limiter/src/key/ip-prefix.ts";

function isIn(blocks: RangeBlocks, address: string): boolean {
  const groups = addressGroups(address);
  return groups !== undefined && isInBlocks(blocks, groups);
}

const noPause = async () => {};

/** As the control plane makes them, whatever the order of the networks. */
async function pushedBlocks(networks: readonly string[]): Promise<RangeBlocks> {
  const ranges = networks.map((text) => rangeOf(parseCidr(text) as Cidr));
  const { v4: ofV4, v6: ofV6 } = await rangesOf(await sortedRanges(ranges, noPause), noPause);
  return { v4: manyBlocksOf(ofV4, v4Digits), v6: manyBlocksOf(ofV6, v6Digits) };
}

test("of many networks, a search in blocks finds both ends of each and nothing between them", async () => {
  const networks = Array.from({ length: 20_000 }, (_, i) => `10.${i >> 8}.${i % 256}.${i % 2 === 0 ? 64 : 128}/27`);
  networks.push(...Array.from({ length: 5_000 }, (_, i) => `2001:db8:${i.toString(16)}::/64`));
  const blocks = await pushedBlocks(networks);
  expect(blocks.v4.length).toBeGreaterThan(40);
  expect(blocks.v6.length).toBeGreaterThan(10);
  for (const block of blocks.v6) expect(isBlock(block, v6Digits)).toBe(true);
  for (let i = 0; i < 20_000; i++) {
    const begin = i % 2 === 0 ? 64 : 128;
    const found = [begin - 1, begin, begin + 31, begin + 32].map((last) =>
      isIn(blocks, `10.${i >> 8}.${i % 256}.${last}`),
    );
    if (found.join() !== "false,true,true,false") expect([i, found]).toEqual([i, [false, true, true, false]]);
  }
  for (let i = 0; i < 5_000; i++) {
    const prefix = `2001:db8:${i.toString(16)}`;
    const found = [`${prefix}::`, `${prefix}::ffff:ffff:ffff:ffff`, `${prefix}:1::`].map((one) => isIn(blocks, one));
    if (found.join() !== "true,true,false") expect([i, found]).toEqual([i, [true, true, false]]);
  }
});

test("a network more changes the block that it is in, and no others", async () => {
  const networks = Array.from({ length: 50_000 }, (_, i) => `10.${i >> 8}.${i % 256}.0/28`);
  const before = await pushedBlocks(networks);
  const after = await pushedBlocks([...networks, "10.97.3.128/28"]);
  const known = new Set(before.v4);
  expect(after.v4.filter((block) => !known.has(block)).length).toBeLessThanOrEqual(2);
});

test("both ends of a network are in it, and their neighbours are not", () => {
  const blocks = blocksOf(["10.1.0.0/16", "2001:db8::/33", "192.0.2.7"]);
  const inIt = ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "2001:db8::", "192.0.2.7"];
  expect(inIt.map((address) => isIn(blocks, address))).not.toContain(false);
  expect(isIn(blocks, "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff")).toBe(true);
  const outside = ["10.0.255.255", "10.2.0.0", "2001:db7:ffff::", "2001:db8:8000::", "192.0.2.6"];
  expect(outside.map((address) => isIn(blocks, address))).not.toContain(true);
});

test("the whole of one version of IP is one range, and no address of the other", () => {
  const blocks = blocksOf(["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/8"]);
  expect(blocks).toEqual({ v4: ["00000000ffffffff"], v6: [] });
  expect([isIn(blocks, "255.255.255.255"), isIn(blocks, "::1")]).toEqual([true, false]);
});

test("nothing is in an empty list", () => {
  expect(isIn(blocksOf([]), "10.0.0.1")).toBe(false);
  expect(isIn(blocksOf([]), "::1")).toBe(false);
});

describe("networks that overlap become one range", () => {
  test.each([
    ["whatever their order", ["11.0.0.0/8", "10.0.0.0/8"], "0a0000000affffff0b0000000bffffff"],
    ["with the first address in common", ["10.0.0.0/24", "10.0.0.0/16"], "0a0000000a00ffff"],
    ["with the last address in common", ["10.0.0.0/24", "10.0.0.255"], "0a0000000a0000ff"],
    ["one in another", ["10.0.0.0/16", "10.0.1.0/24", "10.1.0.0/16"], "0a0000000a00ffff0a0100000a01ffff"],
  ])("%s", (_, cidrs, block) => {
    expect(blocksOf(cidrs)).toEqual({ v4: [block], v6: [] });
  });

  test("as do ranges that are no networks", () => {
    expect(merged([], v4Digits)).toEqual([]);
    expect(merged(["0a0000010a000003"], v4Digits)).toEqual(["0a0000010a000003"]);
    const ranges = ["0a0000010a000003", "0a0000020a000007", "0a0000040a000005", "0a0000070a000008", "0a0000090a000009"];
    expect(merged(ranges, v4Digits)).toEqual(["0a0000010a000008", "0a0000090a000009"]);
  });
});

test("a block ends with its last address", () => {
  expect(endOfBlock("0a0000000a0000ff0b0000000b0000ff", v4Digits)).toBe("0b0000ff");
  expect(endOfBlock(blocksOf(["2001:db8::/32"]).v6[0] as string, v6Digits)).toBe("20010db8ffffffffffffffffffffffff");
});

describe("texts from elsewhere are refused", () => {
  const a = "0a0000000a0000ff";
  const b = "0b0000000b0000ff";
  test.each([
    ["in another order", b + a],
    ["twice", a + a],
    ["that have an address in common", `${a}0a0000ff0a00ffff`],
    ["that end before they begin", "0a0000ff0a000000"],
    ["that are cut", a.slice(1)],
    ["of which one has no end", `${a}0b000000`],
    ["with other characters", "0A0000000A0000FF"],
    ["with characters before the digits", "0a00000-0a0000ff"],
    ["with characters after the digits", "0a0000000a0000fg"],
    ["that are none", ""],
  ])("ranges %s", (_, v4Ranges) => {
    expect(isBlock(v4Ranges, v4Digits)).toBe(false);
  });

  test("but not those that touch", () => {
    expect(isBlock("0a0000000a0000ff0a0001000a0001ff", v4Digits)).toBe(true);
  });

  test("nor those of one address", () => {
    expect(isBlock("0a0000000a0000000a0000010a000001", v4Digits)).toBe(true);
    expect(isBlock("0".repeat(16), v4Digits)).toBe(true);
  });

  test("with a pause after every address", () => {
    let pauses = 0;
    isBlock(a + b, v4Digits, () => {
      pauses += 1;
    });
    expect(pauses).toBe(4);
  });
});
