// References to named lists of networks: where they lead, and until when.

import { describe, expect, test } from "vitest";
import { blocksOf } from "../../../limiter/src/key/address-ranges.ts";
import {
  isInLists,
  type ListReference,
  listKey,
  type NetworkLists,
  referenceOf,
  referredList,
} from "../../../limiter/src/key/network-lists.ts";

/** 10.0.0.7 */
const ten = [10 * 256, 7];
/** 11.0.0.7 */
const eleven = [11 * 256, 7];
const forever = Number.POSITIVE_INFINITY;

const isIn = (lists: NetworkLists, references: ListReference[], groups: number[], nowSeconds = 0) =>
  isInLists(lists, references, groups, nowSeconds);

test("a reference begins with @, and a network is none", () => {
  expect(["@office", "@", "10.0.0.0/8", "::1", ""].map((text) => referredList(text))).toEqual([
    "office",
    "",
    undefined,
    undefined,
    undefined,
  ]);
});

test("a list has one name among those of all apps", () => {
  expect(listKey("shop", "office")).toBe("shop:office");
  expect(referenceOf("shop", "office", 100)).toEqual({
    name: "office",
    own: "shop:office",
    ofAll: "default:office",
    untilSeconds: 100,
  });
});

describe("an address is in what references lead to", () => {
  const office = [referenceOf("shop", "office", forever)];

  test("if it is on the app's list", () => {
    const lists = { "shop:office": blocksOf(["10.0.0.0/8", "2001:db8::/32"]), "bank:office": blocksOf(["11.0.0.0/8"]) };
    expect([isIn(lists, office, ten), isIn(lists, office, eleven)]).toEqual([true, false]);
    expect(isIn(lists, office, [0x2001, 0xdb8, 0, 0, 0, 0, 0, 7])).toBe(true);
    expect(isIn(lists, office, [0x2001, 0xdb9, 0, 0, 0, 0, 0, 7])).toBe(false);
  });

  test("if it is on the list of app default, unless the app has its own", () => {
    const ofAll = { "default:office": blocksOf(["10.0.0.0/8"]) };
    expect([isIn(ofAll, office, ten), isIn(ofAll, office, eleven)]).toEqual([true, false]);
    const both = { ...ofAll, "shop:office": blocksOf(["11.0.0.0/8"]) };
    expect([isIn(both, office, ten), isIn(both, office, eleven)]).toEqual([false, true]);
  });

  test("if it is on any of the lists", () => {
    const lists = { "shop:office": blocksOf(["10.0.0.0/8"]), "shop:partners": blocksOf(["11.0.0.0/8"]) };
    const all = [...office, referenceOf("shop", "partners", forever)];
    expect([isIn(lists, all, ten), isIn(lists, all, eleven), isIn(lists, all, [0, 1])]).toEqual([true, true, false]);
  });

  test("but not if there is no list, or no reference", () => {
    expect(isIn({}, office, ten)).toBe(false);
    expect(isIn({ "shop:office": blocksOf(["10.0.0.0/8"]) }, [], ten)).toBe(false);
  });

  test("until the reference is over", () => {
    const lists = { "shop:office": blocksOf(["10.0.0.0/8"]), "shop:partners": blocksOf(["10.0.0.0/8"]) };
    const untilHundred = [referenceOf("shop", "office", 100)];
    expect([99, 100, 101].map((now) => isIn(lists, untilHundred, ten, now))).toEqual([true, false, false]);
    const longer = [...untilHundred, referenceOf("shop", "partners", 200)];
    expect([100, 199, 200].map((now) => isIn(lists, longer, ten, now))).toEqual([true, true, false]);
  });
});
