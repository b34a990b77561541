import { createHash } from "node:crypto";
import { encodeKeyValues } from "@sluice/limiter/compiled/counter-key.ts";
import { type KeyPart, parseKeyPart } from "@sluice/limiter/key/key-part.ts";
import { countKey, errorOf, largestCounts, newKeyCounts } from "@sluice/limiter/sketch/key-counts.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeKeyValues } from "../../../control-plane/src/activity/key-values.ts";
import { MergedKeys, mostOf } from "../../../control-plane/src/activity/merged-keys.ts";
import { digestKeyOf, showKeys } from "../../../control-plane/src/activity/shown-keys.ts";
import { type HourSlot, hourSlotEndingAt, TopKeysOfPolicies } from "../../../control-plane/src/activity/top-keys.ts";

const key = fc.oneof(
  fc.integer({ min: 0, max: 5 }).map((i) => `often${i}`),
  fc.integer({ min: 0, max: 100 }).map((i) => `seldom${i}`),
);
const streams = fc.array(fc.array(key, { maxLength: 150 }), { minLength: 1, maxLength: 8 });

describe("keys of several workers", () => {
  it("came as often as their bounds say, and no other key more often than is said, also if but a few are kept of each part", () => {
    fc.assert(
      fc.property(
        streams,
        fc.integer({ min: 2, max: 40 }),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 2, max: 40 }),
        fc.integer({ min: 0, max: 10 }),
        (workers, capacity, reported, merged, kept) => {
          const truth = new Map<string, number>();
          const parts = [new MergedKeys(merged), new MergedKeys(merged)] as const;
          for (const [i, stream] of workers.entries()) {
            const counts = newKeyCounts(capacity);
            for (const one of stream) {
              countKey(counts, one, (text) => text.length);
              truth.set(one, (truth.get(one) ?? 0) + 1);
            }
            const { keys, counts: largest, unlisted } = largestCounts(counts, reported);
            (i % 2 === 0 ? parts[0] : parts[1]).add({ keys, counts: largest, error: errorOf(counts), unlisted });
          }
          for (const part of parts) expect(part.size).toBeLessThanOrEqual(merged);
          for (const shown of [parts, parts.map((part) => MergedKeys.of(part.largest(kept, 1_000)))]) {
            const { keys, others } = mostOf(shown, 5);
            const listed = new Map(keys);
            for (const [one, count] of truth) {
              const bounds = listed.get(one);
              if (bounds === undefined) expect(count).toBeLessThanOrEqual(others);
              else {
                expect(count).toBeGreaterThanOrEqual(bounds.atLeast);
                expect(count).toBeLessThanOrEqual(bounds.atMost);
              }
            }
          }
        },
      ),
    );
  });

  it("are counted exactly if all reports list all keys", () => {
    const part = new MergedKeys(10);
    for (const counts of [
      [3, 1],
      [5, 2],
    ])
      part.add({ keys: ["a", "b"], counts, error: 0, unlisted: 0 });
    expect(mostOf([part], 1)).toEqual({ keys: [["a", { atLeast: 8, atMost: 8 }]], others: 3 });
  });
});

describe("the top keys of a policy", () => {
  const report = (count: number) => ({ keys: ["a"], counts: [count], error: 0, unlisted: 0 });
  const top = (keys: TopKeysOfPolicies, window: "minute" | "hour", nowMs: number) =>
    keys.top("shop/books", "refused", window, nowMs, 10).keys.map(([, { atLeast }]) => atLeast);

  it("are those of the last minute and the last hour", () => {
    const keys = new TopKeysOfPolicies();
    keys.add("shop/books", "refused", 0, report(1));
    keys.add("shop/books", "refused", 59_000, report(2));
    keys.add("shop/books", "admitted", 59_000, report(50));
    keys.add("shop/pens", "refused", 59_000, report(70));
    expect(top(keys, "minute", 59_000)).toEqual([3]);
    expect(top(keys, "minute", 75_000)).toEqual([2]);
    expect(top(keys, "minute", 130_000)).toEqual([]);
    expect(top(keys, "hour", 3_590_000)).toEqual([3]);
    expect(top(keys, "hour", 3_999_000)).toEqual([]);
  });

  it("are parts of several control planes, which do not change each other, and are kept of this one's own gateways alone", () => {
    const keys = new TopKeysOfPolicies();
    const nowMs = 10_000_000;
    keys.add("shop/books", "refused", nowMs, report(3));
    keys.add("shop/books", "refused", nowMs, report(9), false);
    expect([top(keys, "minute", nowMs), top(keys, "hour", nowMs)]).toEqual([[12], [3]]);
    const [slot] = keys.takeChanged(10) as [HourSlot];
    expect(keys.keptOf(slot)).toEqual({ keys: ["a"], counts: [3], errors: [0], unlisted: 0 });
    for (const count of [5, 9]) keys.put("other", slot, { keys: ["a"], counts: [count], errors: [0], unlisted: 0 });
    expect(top(keys, "hour", nowMs)).toEqual([12]);
    expect(keys.takeChanged(10)).toEqual([]);
    keys.add("shop/books", "refused", nowMs, report(1));
    expect(top(keys, "hour", nowMs)).toEqual([13]);
    expect(keys.takeChanged(10)).toEqual([slot]);
  });

  it("take little room where they are kept: fewer, if they are long", () => {
    const kept = (one: string) => {
      const merged = new MergedKeys(400);
      const all = Array.from({ length: 100 }, (_, i) => `${i}`.padEnd(200, one));
      merged.add({ keys: all, counts: all.map((_, i) => 10 ** 14 + i), error: 10 ** 14, unlisted: 5 });
      return merged.largest(50, 3_000);
    };
    for (const one of ["x", "\u0001"]) {
      const { keys, unlisted } = kept(one);
      expect(Buffer.byteLength(JSON.stringify(kept(one)))).toBeLessThan(3_100);
      expect([keys.length > 1, keys[0]?.slice(0, 2), unlisted]).toEqual([true, "99", 2 * 10 ** 14 + 99 - keys.length]);
    }
  });

  it("are complete unless some of the time was lost: of all apps, of one app, or because nobody knows", () => {
    const keys = new TopKeysOfPolicies();
    const [hourMs, nowMs] = [3_600_000, 36_000_000];
    const isComplete = (app: string, atMs: number) => keys.top(`${app}/books`, "refused", "hour", atMs, 10).isComplete;
    keys.noteCut("shop", hourSlotEndingAt(nowMs));
    expect([isComplete("shop", nowMs), isComplete("bank", nowMs)]).toEqual([false, true]);
    expect(isComplete("shop", nowMs + hourMs)).toBe(true);
    keys.noteLost("hour", nowMs + hourMs);
    expect([isComplete("bank", nowMs + hourMs), isComplete("bank", nowMs + 2 * hourMs)]).toEqual([false, true]);
    keys.noteSilent(true);
    expect(isComplete("bank", nowMs + 2 * hourMs)).toBe(false);
  });

  it("are known not to be complete in the database if some gave way in memory while they still grew", () => {
    const keys = new TopKeysOfPolicies(1_000);
    const nowMs = 36_000_000;
    const many = {
      keys: Array.from({ length: 100 }, (_, i) => `k${i}`),
      counts: Array.from({ length: 100 }, (_, i) => i + 1),
      error: 0,
      unlisted: 0,
    };
    keys.add("a/first", "refused", nowMs, many);
    expect(keys.takeChanged(10)).toHaveLength(1);
    expect(keys.droppedUntilMs).toBe(0);
    for (let i = 0; i < 100; i++) keys.add(`a/${i}`, "refused", nowMs, many);
    expect(keys.droppedUntilMs).toBe(nowMs + 300_000);
  });

  it("of a time give way before those of a later time, in whatever order control planes' parts come", () => {
    const keys = new TopKeysOfPolicies(100);
    const newest = hourSlotEndingAt(36_000_000);
    const part = (number: number, i: number) => ({ name: `shop/p${i} refused`, number });
    const kept = { keys: ["a", "b", "c"], counts: [3, 2, 1], errors: [0, 0, 0], unlisted: 0 };
    for (const source of ["one", "other"]) {
      for (let i = 0; i < 10; i++)
        for (const number of [newest - 2, newest - 1, newest]) keys.put(source, part(number, i), kept);
    }
    const { keys: found, sinceMs } = keys.top("shop/p0", "refused", "hour", 36_000_000, 10);
    expect(found).toHaveLength(3);
    expect(sinceMs).toBeLessThanOrEqual(36_000_000 - 300_000);
  });

  it("are forgotten with their time, and take no more memory than they may: the oldest give way, and it is said", () => {
    const keys = new TopKeysOfPolicies(1_000);
    const many = {
      keys: Array.from({ length: 100 }, (_, i) => `k${i}`),
      counts: Array.from({ length: 100 }, (_, i) => i + 1),
      error: 0,
      unlisted: 0,
    };
    const nowMs = 10_000_000;
    const shown = (policy: string, atMs: number) => keys.top(policy, "refused", "minute", atMs, 100);
    keys.add("a/first", "refused", nowMs, many);
    expect(shown("a/first", nowMs + 20_000).keys).toHaveLength(100);
    expect(shown("a/first", nowMs + 20_000).sinceMs).toBe(nowMs - 40_000);
    for (let i = 0; i < 100; i++) keys.add(`a/${i}`, "refused", nowMs + 20_000, many);
    expect(keys.held).toBeLessThanOrEqual(1_000);
    expect(shown("a/first", nowMs + 20_000).keys).toHaveLength(0);
    expect(shown("a/first", nowMs + 20_000).sinceMs).toBeGreaterThan(nowMs);
    keys.add("a/last", "refused", nowMs + 30_000, many);
    expect(shown("a/last", nowMs + 30_000).keys.length).toBeLessThanOrEqual(20);
    expect(shown("a/last", nowMs + 30_000).others).toBeGreaterThanOrEqual(1);
    keys.forget(nowMs + 5_000_000);
    expect(keys.held).toBe(0);
    keys.add("a/last", "refused", nowMs + 5_000_000, many);
    expect(shown("a/last", nowMs + 5_000_000).keys).toHaveLength(100);
  });
});

describe("shown keys", () => {
  const one = { atLeast: 1, atMost: 1 };
  const ofShop = digestKeyOf("a key of the database", "shop");
  const shownTo = (mayChange: boolean, part: string, encoded: string, digestKey = ofShop) =>
    showKeys([[encoded, one]], [parseKeyPart(part) as KeyPart], { mayChange, digestKey })[0];
  const shown = (part: string, mayChange: boolean) => shownTo(mayChange, part, "1:secret")?.key;

  it.each([
    ["cookie:theme"],
    ["header:authorization"],
    ["header:x-api-key"],
    ["query:api_key"],
    ["query:key"],
    ["query:sig"],
    ["query:access_token"],
    ["jwt:sid"],
    ["var:http_authorization"],
    ["var:cookie_user"],
    ["var:arg_pwd"],
    ["var:args"],
    ["var:arg_sid"],
    ["header:referer"],
  ])("of %s are hidden from those who may not change the policy", (part) => {
    expect(shown(part, false)).toEqual([expect.stringMatching(/^hmac:[0-9a-f]{12}$/)]);
    expect(shown(part, true)).toEqual(["secret"]);
  });

  it("have digests that nobody can make who does not have the key of the database, and that are the same each time", () => {
    const digest = (encoded: string, digestKey?: Buffer) =>
      shownTo(false, "header:x-pin", encoded, digestKey)?.key?.[0];
    const pins = Array.from({ length: 10_000 }, (_, i) => String(i).padStart(4, "0"));
    const guesses = pins.map((pin) => createHash("sha256").update(pin).digest("hex").slice(0, 12));
    const shownDigest = digest("1:0417") as string;
    expect(guesses).not.toContain(shownDigest.slice(shownDigest.indexOf(":") + 1));
    expect(digest("1:0417", digestKeyOf("a key of the database", "shop"))).toBe(shownDigest);
    const others = [digestKeyOf("another key", "shop"), digestKeyOf("a key of the database", "bank")];
    for (const other of others) expect(digest("1:0417", other)).not.toBe(shownDigest);
    expect(new Set(pins.map((pin) => digest(`1:${pin}`))).size).toBe(pins.length);
  });

  it("that are long are hidden, too: who knows the long part could try the short one", () => {
    const encoded = `h:${"0".repeat(40)}`;
    expect(shownTo(true, "path", encoded)).toEqual({ hash: encoded, ...one });
    expect(shownTo(false, "path", encoded)).toEqual({ hash: expect.stringMatching(/^hmac:[0-9a-f]{12}$/), ...one });
  });

  it.each(["header:x-user", "query:design", "jwt:sub", "var:remote_user", "ip", "path"])("of %s are shown", (part) => {
    expect(shown(part, false)).toEqual(["secret"]);
  });
});

describe("reported key values", () => {
  it("are read back as they were encoded", () => {
    const hash = () => "0".repeat(40);
    const value = fc.oneof(fc.string({ unit: "grapheme", maxLength: 12 }), fc.constantFrom("", ":", "3:abc", "a\nb"));
    fc.assert(
      fc.property(fc.array(value, { maxLength: 4 }), (values) => {
        expect(decodeKeyValues(encodeKeyValues(values, values.length, hash))).toEqual(values);
      }),
    );
    expect(decodeKeyValues(`h:${"0".repeat(40)}`)).toBeUndefined();
    for (const damaged of ["", "2:9:abc", "2:x:abc", "2:", "x"]) expect(decodeKeyValues(damaged)).toBeUndefined();
  });
});
