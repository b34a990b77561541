import { describe, expect, test } from "vitest";
import type { SnapshotBan } from "../../../limiter/src/compiled/bans.ts";
import { isBannedAddress, isBannedKey, type PolicyBans } from "../../../limiter/src/compiled/bans.ts";
import { isWithin, type Networks } from "../../../limiter/src/key/networks.ts";
import { loadSnapshot } from "../../fixtures/documents/loaded-state.ts";

const document = (name: string, key: string[]) => ({
  name,
  key,
  limits: [{ algorithm: "fixed-window", quota: 1, window: "1s" }],
});

/** @returns the bans that each policy of apps "shop" and "bank" applies */
function bansOf(bans: SnapshotBan[]): Record<string, PolicyBans | undefined> {
  const { snapshot, problems } = loadSnapshot({
    format: 1,
    epoch: "e",
    revision: 1,
    bans,
    policies: [
      { app: "shop", document: document("books", ["ip", "header:x-user"]) },
      { app: "shop", document: document("all", []) },
      { app: "bank", document: document("books", ["ip", "header:x-user"]) },
    ],
  });
  expect(problems).toEqual([]);
  return Object.fromEntries((snapshot?.policies ?? []).map(({ app, name, bans: own }) => [`${app}/${name}`, own]));
}

describe("a ban", () => {
  test("of a network by app default applies everywhere, and belongs to no policy", () => {
    const { snapshot } = loadSnapshot({
      format: 1,
      epoch: "e",
      revision: 1,
      bans: [
        { id: "1", app: "default", cidr: "203.0.113.0/24", untilSeconds: 100 },
        { id: "2", app: "shop", cidr: "198.51.100.0/24", untilSeconds: 100 },
      ],
      policies: [{ app: "default", document: document("books", []) }],
    });
    const everywhere = snapshot?.bannedEverywhere as Networks;
    expect(isWithin(everywhere, "203.0.113.9", 99)).toBe(true);
    expect(isWithin(everywhere, "203.0.113.9", 100)).toBe(false);
    expect(isWithin(everywhere, "198.51.100.9", 99)).toBe(false);
    // The policy stays on the fast path, as if there were no bans.
    expect(snapshot?.policies[0]).toMatchObject({ policy: { fastPath: true } });
  });

  test("of a network applies to the policies of its app, until it ends", () => {
    const bans = bansOf([
      { id: "1", app: "shop", cidr: "203.0.113.0/24", untilSeconds: 100 },
      { id: "2", app: "shop", cidr: "2001:db8::/32", untilSeconds: 50 },
    ]);
    expect(bans["bank/books"]).toBeUndefined();
    for (const policy of ["shop/books", "shop/all"]) {
      const own = bans[policy] as PolicyBans;
      expect(isBannedAddress(own, "203.0.113.9", 10)).toBe(true);
      expect(isBannedAddress(own, "::ffff:203.0.113.9", 10)).toBe(true);
      expect(isBannedAddress(own, "203.0.114.9", 10)).toBe(false);
      expect(isBannedAddress(own, "2001:db8::1", 49)).toBe(true);
      expect(isBannedKey(own, ["203.0.113.9", "x"], 10)).toBe(false);
    }
    const own = bans["shop/all"] as PolicyBans;
    expect(isBannedAddress(own, "2001:db8::1", 50)).toBe(false);
    expect(isBannedAddress(own, "203.0.113.9", 99)).toBe(true);
    expect(isBannedAddress(own, "203.0.113.9", 100)).toBe(false);
  });

  test("of key values applies to its policy, and accepts patterns", () => {
    const bans = bansOf([
      { id: "1", app: "shop", policy: "books", keyPattern: ["*", "vip-42"], untilSeconds: 100 },
      { id: "2", app: "shop", policy: "books", keyPattern: ["192.0.2.1", "*"], untilSeconds: 200 },
      // This ban has another number of values than the policy's key has by now.
      { id: "3", app: "shop", policy: "all", key: ["x"], untilSeconds: 200 },
    ]);
    const own = bans["shop/books"] as PolicyBans;
    expect(bans["shop/all"]).toBeUndefined();
    expect(bans["bank/books"]).toBeUndefined();
    expect(isBannedKey(own, ["198.51.100.1", "vip-42"], 10)).toBe(true);
    expect(isBannedKey(own, ["198.51.100.1", "vip-43"], 10)).toBe(false);
    expect(isBannedKey(own, ["192.0.2.1", "anyone"], 10)).toBe(true);
    expect(isBannedAddress(own, "192.0.2.1", 10)).toBe(false);
    expect(isBannedKey(own, ["198.51.100.1", "vip-42"], 100)).toBe(false);
    expect(isBannedKey(own, ["192.0.2.1", "anyone"], 199)).toBe(true);
    expect(isBannedKey(own, ["192.0.2.1", "anyone"], 200)).toBe(false);
  });

  test("of key values takes * for what it is", () => {
    const own = bansOf([
      { id: "1", app: "shop", policy: "books", key: ["192.0.2.1", "*"], untilSeconds: 100 },
      { id: "2", app: "shop", policy: "books", key: ["192.0.2.1", "bot-*"], untilSeconds: 100 },
      { id: "3", app: "shop", policy: "books", keyPattern: ["192.0.2.2", "bot-*"], untilSeconds: 100 },
      { id: "4", app: "shop", policy: "books", key: ["192.0.2.*", "x"], untilSeconds: 100 },
    ])["shop/books"] as PolicyBans;
    expect(isBannedKey(own, ["192.0.2.1", "*"], 10)).toBe(true);
    expect(isBannedKey(own, ["192.0.2.1", "bot-*"], 10)).toBe(true);
    expect(isBannedKey(own, ["192.0.2.1", "bot-1"], 10)).toBe(false);
    expect(isBannedKey(own, ["192.0.2.1", "anyone"], 10)).toBe(false);
    expect(isBannedKey(own, ["192.0.2.2", "bot-1"], 10)).toBe(true);
    expect(isBannedKey(own, ["192.0.2.3", "x"], 10)).toBe(false);
  });

  test("still applies when another that is wider, narrower or equal has ended", () => {
    let id = 0;
    const ban = (untilSeconds: number, what: object) => {
      id += 1;
      return { id: `${id}`, app: "shop", untilSeconds, ...what };
    };
    const ofKey = (...keyPattern: string[]) => ({ policy: "books", keyPattern });
    const bans = bansOf([
      ban(10, { cidr: "203.0.113.1/32" }),
      ban(20, { cidr: "203.0.113.0/24" }),
      ban(30, { cidr: "203.0.113.1" }),
      ban(10, ofKey("*", "a")),
      ban(20, ofKey("*", "a*")),
      ban(30, ofKey("*", "a")),
      ban(25, ofKey("*", "a")),
    ])["shop/books"] as PolicyBans;
    for (const [now, first, second] of [
      [9, true, true],
      [19, true, true],
      [20, true, false],
      [29, true, false],
      [30, false, false],
    ] as const) {
      expect(isBannedAddress(bans, "203.0.113.1", now), `at ${now}`).toBe(first);
      expect(isBannedAddress(bans, "203.0.113.2", now), `at ${now}`).toBe(second);
      expect(isBannedKey(bans, ["192.0.2.1", "a"], now), `at ${now}`).toBe(first);
      expect(isBannedKey(bans, ["192.0.2.1", "ab"], now), `at ${now}`).toBe(second);
    }
  });

  test("of a value that the key can never have bans nobody, and others still apply", () => {
    const bans = bansOf([
      { id: "1", app: "shop", policy: "books", key: ["no address", "vip-42"], untilSeconds: 100 },
      { id: "2", app: "shop", policy: "books", keyPattern: ["192.0.2.1", "*"], untilSeconds: 100 },
      { id: "3", app: "bank", policy: "books", keyPattern: ["no address", "*"], untilSeconds: 100 },
    ]);
    expect(isBannedKey(bans["shop/books"] as PolicyBans, ["198.51.100.1", "vip-42"], 10)).toBe(false);
    expect(isBannedKey(bans["shop/books"] as PolicyBans, ["192.0.2.1", "x"], 10)).toBe(true);
    expect(bans["bank/books"]).toBeUndefined();
  });
});
