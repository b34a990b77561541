// Networks and references to lists that are added, changed and removed one by one, as bans are.

import { describe, expect, test } from "vitest";
import { blocksOf } from "../../../limiter/src/key/address-ranges.ts";
import type { ListScope } from "../../../limiter/src/key/network-lists.ts";
import {
  isWithin,
  type Networks,
  networksOf,
  noNetworks,
  removeNetwork,
  setNetwork,
} from "../../../limiter/src/key/networks.ts";

const scope: ListScope = {
  app: "shop",
  lists: {
    "shop:office": blocksOf(["10.0.0.0/8"]),
    "shop:partners": blocksOf(["11.0.0.0/8", "2001:db8::/32"]),
    "default:crawlers": blocksOf(["12.0.0.0/8"]),
  },
};

const found = (networks: Networks, addresses: readonly string[], nowSeconds = 0) =>
  addresses.filter((address) => isWithin(networks, address, nowSeconds));

describe("an address is in networks", () => {
  test("of any length, in whatever order they came", () => {
    const cidrs = ["192.0.2.0/24", "10.0.0.0/8", "198.51.100.7", "192.0.3.0/24", "2001:db8::/32", "2001:db9::1"];
    const addresses = ["192.0.2.9", "10.9.9.9", "198.51.100.7", "192.0.3.9", "2001:db8::9", "2001:db9::1"];
    const outside = ["192.0.4.9", "11.0.0.0", "198.51.100.8", "2001:db7::9", "2001:db9::2"];
    for (const order of [cidrs, cidrs.toReversed()]) {
      expect(found(networksOf(order), [...addresses, ...outside])).toEqual(addresses);
    }
  });

  test("only if its groups are theirs, and not others with the same digits", () => {
    // These addresses are 2561, 1 and 256, 11 in groups of 16 bits.
    expect(found(networksOf(["10.1.0.1"]), ["10.1.0.1", "1.0.0.11"])).toEqual(["10.1.0.1"]);
  });

  test("until each of them is over", () => {
    const networks = noNetworks();
    setNetwork(networks, "10.0.0.0/8", 100);
    setNetwork(networks, "11.0.0.0/16", 50);
    const at = (nowSeconds: number) => found(networks, ["10.0.0.7", "11.0.0.7"], nowSeconds);
    expect([at(49), at(50), at(99), at(100)]).toEqual([["10.0.0.7", "11.0.0.7"], ["10.0.0.7"], ["10.0.0.7"], []]);
  });

  test("until the end that a network was given last, be it sooner or later", () => {
    const networks = noNetworks();
    setNetwork(networks, "10.0.0.0/8", 100);
    setNetwork(networks, "10.0.0.0/8", 50);
    expect([isWithin(networks, "10.0.0.7", 49), isWithin(networks, "10.0.0.7", 50)]).toEqual([true, false]);
    setNetwork(networks, "10.0.0.0/8", 200);
    expect([isWithin(networks, "10.0.0.7", 199), isWithin(networks, "10.0.0.7", 200)]).toEqual([true, false]);
  });
});

describe("a network that is removed", () => {
  const addresses = ["10.0.0.7", "11.0.0.7", "12.1.0.7", "2001:db8::7"];
  const all = () => networksOf(["10.0.0.0/8", "11.0.0.0/8", "12.1.0.0/16", "2001:db8::/32"]);

  test("has no address any more, and others of its length and of other lengths have theirs", () => {
    const networks = all();
    removeNetwork(networks, "10.0.0.0/8");
    expect(found(networks, addresses)).toEqual(["11.0.0.7", "12.1.0.7", "2001:db8::7"]);
    removeNetwork(networks, "12.1.0.0/16");
    expect(found(networks, addresses)).toEqual(["11.0.0.7", "2001:db8::7"]);
    removeNetwork(networks, "2001:db8::/32");
    expect(found(networks, addresses)).toEqual(["11.0.0.7"]);
  });

  test("leaves the others there, however often it was set", () => {
    const networks = networksOf(["10.0.0.0/8", "10.0.0.0/8", "11.0.0.0/8"]);
    removeNetwork(networks, "10.0.0.0/8");
    expect(found(networks, addresses)).toEqual(["11.0.0.7"]);
  });

  test("leaves no length behind that every address would be looked up by", () => {
    const networks = networksOf(["10.0.0.0/8", "10.0.0.0/8", "11.0.0.0/8", "2001:db8::/32"]);
    for (const text of ["10.0.0.0/8", "11.0.0.0/8", "2001:db8::/32"]) removeNetwork(networks, text);
    expect(networks).toEqual(noNetworks());
  });

  test("may not have been there, or be gone already", () => {
    const networks = all();
    for (const text of ["13.0.0.0/8", "10.0.0.0/9", "10.0.0.0/8", "10.0.0.0/8"]) removeNetwork(networks, text);
    expect(found(networks, addresses)).toEqual(["11.0.0.7", "12.1.0.7", "2001:db8::7"]);
  });
});

describe("a reference to a list", () => {
  test("stands for the networks of the list, beside networks and alone", () => {
    const addresses = ["10.0.0.7", "11.0.0.7", "12.0.0.7", "13.0.0.7", "2001:db8::7", "unix:"];
    expect(found(networksOf(["@office"], scope), addresses)).toEqual(["10.0.0.7"]);
    expect(found(networksOf(["13.0.0.0/8", "@partners", "@crawlers"], scope), addresses)).toEqual([
      "11.0.0.7",
      "12.0.0.7",
      "13.0.0.7",
      "2001:db8::7",
    ]);
    expect(found(networksOf(["@nobody"], scope), addresses)).toEqual([]);
  });

  test("leads nowhere where there are no lists", () => {
    expect(found(networksOf(["@office", "13.0.0.0/8"]), ["10.0.0.7", "13.0.0.7"])).toEqual(["13.0.0.7"]);
  });

  test("is compared with the whole address, also beside networks that are shorter", () => {
    const lists = { "shop:office": blocksOf(["10.0.0.7"]) };
    const networks = networksOf(["10.0.0.0/16", "@office"], { app: "shop", lists });
    setNetwork(networks, "10.0.0.0/16", 0);
    expect(found(networks, ["10.0.0.7", "10.0.0.8"])).toEqual(["10.0.0.7"]);
  });

  test("is over at the end that it was given last", () => {
    const networks = noNetworks(scope);
    setNetwork(networks, "@office", 100);
    setNetwork(networks, "@office", 50);
    expect([isWithin(networks, "10.0.0.7", 49), isWithin(networks, "10.0.0.7", 50)]).toEqual([true, false]);
  });

  test("is there once, and in the order of names, in whatever order they came", () => {
    const names = ["@partners", "@crawlers", "@office", "@crawlers"];
    for (const order of [names, names.toReversed()]) {
      const { references } = networksOf(order, scope);
      expect(references?.map(({ name }) => name)).toEqual(["crawlers", "office", "partners"]);
    }
  });

  test("that is removed leaves the others, and nothing if it was the last", () => {
    const networks = networksOf(["@office", "@partners"], scope);
    removeNetwork(networks, "@office");
    expect(found(networks, ["10.0.0.7", "11.0.0.7"])).toEqual(["11.0.0.7"]);
    removeNetwork(networks, "@nobody");
    expect(found(networks, ["10.0.0.7", "11.0.0.7"])).toEqual(["11.0.0.7"]);
    removeNetwork(networks, "@partners");
    expect(networks).toEqual(noNetworks(scope));
    removeNetwork(networks, "@partners");
    expect(networks).toEqual(noNetworks(scope));
  });
});
