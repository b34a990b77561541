// What the page of keys makes of a counter and of bans.

import { describe, expect, it } from "vitest";
import { type StoredPolicy, templateOf, termsOf, withTemplates } from "../../console/src/api/policy-terms.ts";
import { bansOfKey } from "../../console/src/pages/bans/bans-of-key.ts";
import {
  type Counter,
  placesOf,
  refusing,
  seriesName,
  withReading,
} from "../../console/src/pages/keys/counter-state.ts";
import { linkTo, readKeysSearch } from "../../console/src/pages/keys/keys-search.ts";
import { usersOf } from "../../console/src/pages/templates/template-users.ts";

const state = (name: string, remaining: number, limit = 10, resetAfter = 60) => ({
  name,
  limit,
  used: limit - remaining,
  remaining,
  resetAfter,
});
const bucket = { name: "b", algorithm: "token-bucket", quota: 10, window: "1m" } as const;
const fixedWindow = { ...bucket, name: "w", algorithm: "fixed-window" } as const;
const slots = { name: "c", algorithm: "concurrency", quota: 4, ttl: "1m" } as const;

describe("what refuses a key", () => {
  it("is each limit with fewer units than a request costs", () => {
    expect(refusing([state("w", 1), state("b", 3)], [fixedWindow, bucket], 2)).toEqual([
      { limit: "w", atMostSeconds: 60 },
    ]);
    expect(refusing([state("w", 2)], [fixedWindow], 2)).toEqual([]);
  });
  it("a bucket has the next unit after a part of the time in which it fills", () => {
    expect(refusing([state("b", 0)], [bucket], 1)).toEqual([{ limit: "b", atMostSeconds: 6 }]);
    expect(refusing([state("b", 0)], [bucket], 10)).toEqual([{ limit: "b", atMostSeconds: 60 }]);
  });
  it("nobody knows when a request ends that holds a slot, and no wait helps if a request costs more than the limit", () => {
    expect(refusing([state("c", 0)], [slots], 1)).toEqual([{ limit: "c", atMostSeconds: undefined }]);
    expect(refusing([state("w", 3, 3)], [fixedWindow], 4)).toEqual([{ limit: "w", atMostSeconds: undefined }]);
  });
});

describe("a counter", () => {
  const counter = (scope: "node" | "cluster"): Counter => ({
    app: "default",
    policy: "books",
    scope,
    key: ["ann"],
    ...(scope === "cluster" ? { limits: [state("w", 7)] } : {}),
    gateways: [
      { id: "one", state: "done", limits: [state("w", 4)] },
      { id: "two", state: "silent" },
    ],
  });
  it("of scope node is at every gateway, and of scope cluster on Redis", () => {
    expect(placesOf(counter("node"))).toEqual([
      { gateway: "one", state: "done", limits: [state("w", 4)] },
      { gateway: "two", state: "silent", limits: [] },
    ]);
    expect(placesOf(counter("cluster"))).toEqual([{ gateway: undefined, state: "done", limits: [state("w", 7)] }]);
  });
  it("is kept over time, an hour at most", () => {
    let readings = withReading([], counter("node"), 1);
    expect(readings[0]?.used.get(seriesName("one", "w"))).toBe(6);
    for (let i = 0; i < 1_000; i++) readings = withReading(readings, counter("node"), i);
    expect(readings).toHaveLength(720);
  });
});

it("bans of a key are those whose every part matches, the longest first", () => {
  const ban = (id: string, who: { key: string[] } | { keyPattern: string[] }, until: string, policy = "books") => ({
    id,
    app: "default",
    policy,
    ...who,
    until,
    createdAt: until,
    createdBy: "ann",
    revision: 1,
  });
  const bans = [
    ban("exact", { key: ["ann", "1"] }, "2030-01-01T00:00:00Z"),
    ban("any", { keyPattern: ["*", "1"] }, "2031-01-01T00:00:00Z"),
    ban("prefix", { keyPattern: ["an*", "1"] }, "2029-01-01T00:00:00Z"),
    ban("value with a star", { key: ["an*", "1"] }, "2030-01-01T00:00:00Z"),
    ban("other", { key: ["ben", "1"] }, "2030-01-01T00:00:00Z"),
    ban("shorter", { keyPattern: ["ann"] }, "2030-01-01T00:00:00Z"),
    ban("of another policy", { key: ["ann", "1"] }, "2030-01-01T00:00:00Z", "films"),
  ];
  expect(bansOfKey(bans, "books", ["ann", "1"]).map(({ id }) => id)).toEqual(["any", "exact", "prefix"]);
});

it("a URL looks a key up only if it is a list of texts", () => {
  expect(readKeysSearch({ app: "a", policy: "p", key: ["x", ""] })).toEqual({ app: "a", policy: "p", key: ["x", ""] });
  expect(readKeysSearch({ app: 1, policy: "", key: ["x", 1] })).toEqual({});
  expect(readKeysSearch({ key: [] })).toEqual({ key: [] });
});

describe("a stored policy", () => {
  const limits = [{ algorithm: "fixed-window", quota: 1, window: "1h" }] as unknown as NonNullable<
    StoredPolicy["limits"]
  >;
  it("has the defaults of what it leaves out", () => {
    expect(termsOf({ name: "p", limits })).toMatchObject({
      mode: "enforce",
      key: [],
      cost: 1,
      limits: [{ name: "default" }],
    });
    expect(termsOf({ name: "p", limits, cost: { from: "header:x", default: 3 } }).cost).toBe(3);
  });
  it("with plans has the limits of its default plan", () => {
    const plans = { free: limits, pro: [] };
    expect(termsOf({ name: "p", plans, planBy: "jwt:plan", defaultPlan: "free" }).limits).toMatchObject([{ quota: 1 }]);
  });
  it("has the content of its templates, and each template its policies", () => {
    const document = { name: "p", limits, onLimit: { template: "polite" }, cost: { template: "gone" } };
    const onLimit = { action: "reject", status: 429, headers: [] } as never;
    expect(withTemplates(document, [{ name: "polite", document: { onLimit } }])).toEqual({ ...document, onLimit });
    expect(templateOf({ template: 1 })).toBeUndefined();
    const listed = { name: "p", etag: "", revision: 1, updatedAt: "", document } as never;
    expect(usersOf([listed], { name: "polite" })).toEqual(["p"]);
    expect(usersOf([listed], { name: "other" })).toEqual([]);
  });
});

it("a key with a credential in it is not in the URL", () => {
  expect(linkTo("shop", "books", ["ip"], ["10.0.0.1"]).search).toEqual({
    app: "shop",
    policy: "books",
    key: ["10.0.0.1"],
  });
  expect(linkTo("shop", "books", ["ip", "header:x-api-key"], ["10.0.0.1", "sk-1"])).toEqual({
    to: "/keys",
    search: { app: "shop", policy: "books" },
    state: { countedKey: ["10.0.0.1", "sk-1"] },
  });
  expect(linkTo("shop", "books", ["ip"], ["10.0.0.1"], { ip: true }).search).toEqual({ app: "shop", policy: "books" });
});
