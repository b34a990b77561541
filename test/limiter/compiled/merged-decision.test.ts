import { describe, expect, test } from "vitest";
import { type Decision, never } from "../../../limiter/src/algorithms/decision.ts";
import { compilePolicy } from "../../../limiter/src/compiled/compile.ts";
import {
  type MergedDecision,
  mergeAll,
  mergeLimit,
  newMergedDecision,
  otherItems,
} from "../../../limiter/src/compiled/merged-decision.ts";
import { policyNamed } from "../policies.ts";

const allows = (remaining: number, resetAfterUs = 5, delayUs = 0): Decision => ({
  allowed: true,
  limit: 100,
  remaining,
  retryAfterUs: 0,
  resetAfterUs,
  delayUs,
});
const refuses = (retryAfterUs: number): Decision => ({
  allowed: false,
  limit: 100,
  remaining: 0,
  retryAfterUs,
  resetAfterUs: 1_000,
  delayUs: 0,
});

const limits = ["burst", "daily"].map((name) => ({ name, algorithm: "fixed-window", quota: 100, window: "1h" }));
const books = compilePolicy("shop", policyNamed("books", { limits }));
const vendor = compilePolicy("shop", policyNamed("vendor"));

function mergedOf(decisions: Record<string, Decision>): MergedDecision {
  const merged = newMergedDecision();
  for (const [limitName, decision] of Object.entries(decisions)) mergeLimit(merged, books, limitName, decision);
  return merged;
}

/** Expects this limit to be the most restrictive, in either order of merging. */
function expectSpeaker(name: string, decisions: Record<string, Decision>): void {
  const reversed = Object.fromEntries(Object.entries(decisions).reverse());
  for (const order of [decisions, reversed]) {
    const merged = mergedOf(order);
    expect(merged.limitName).toBe(name);
    expect(merged.decision).toEqual(order[name]);
  }
}

describe("a merged decision", () => {
  test("with no limit merged allows, and names no limit", () => {
    expect(newMergedDecision()).toEqual({
      allowed: true,
      policy: undefined,
      limitName: "",
      decision: { allowed: true, limit: 0, remaining: 0, retryAfterUs: 0, resetAfterUs: 0, delayUs: 0 },
      others: [],
      delayUs: 0,
      violated: [],
      quiet: false,
    });
  });

  test("keeps what the limits decided that are not the most restrictive, also of what was decided separately", () => {
    const own = mergedOf({ burst: allows(2), daily: allows(1, 7), monthly: allows(3) });
    const othersOf = (merged: MergedDecision) => merged.others.map(({ policy, limitName }) => [policy.name, limitName]);
    expect(othersOf(own)).toEqual([
      ["books", "burst"],
      ["books", "monthly"],
    ]);
    const merged = newMergedDecision();
    mergeLimit(merged, vendor, "all", allows(9));
    mergeAll(merged, own);
    // The vendor's limit has no others beside it.
    expect(othersOf(merged)).toEqual(othersOf(own));
    expect(newMergedDecision().others).toEqual([]);
    // A name that every object of JavaScript has is a name.
    const odd = mergedOf({ burst: allows(1), constructor: allows(2, 1_000_000) });
    expect(otherItems(odd, String)).toBe(', "constructor";r=2;t=1');
  });

  test("allows if all allow, and names no violation", () => {
    expect(mergedOf({ burst: allows(1), daily: allows(2) })).toMatchObject({ allowed: true, violated: [] });
  });

  test("refuses if one refuses, and names those that did, in order", () => {
    expect(mergedOf({ a: refuses(1), b: allows(2), c: refuses(1) })).toMatchObject({
      allowed: false,
      violated: ["a", "c"],
    });
  });

  test("names the limit with the fewest units left", () => {
    expectSpeaker("daily", { burst: allows(9), daily: allows(3), hourly: allows(4) });
  });

  test("names the one that resets last among equals", () => {
    expectSpeaker("daily", { burst: allows(3, 5), daily: allows(3, 6) });
  });

  test("names a refusal before any permission", () => {
    expectSpeaker("daily", { burst: allows(0, 1_000_000), daily: refuses(1) });
  });

  test("names the longest wait among refusals", () => {
    expectSpeaker("daily", { burst: refuses(7), daily: refuses(8), hourly: refuses(6) });
  });

  test("names an endless wait before every other", () => {
    expectSpeaker("huge", { burst: refuses(7), huge: refuses(never), daily: refuses(9e15) });
  });

  test("names the first of two equals, and its policy", () => {
    const merged = newMergedDecision();
    mergeLimit(merged, vendor, "first", allows(3));
    mergeLimit(merged, books, "second", allows(3));
    expect(merged).toMatchObject({ policy: { name: "vendor" }, limitName: "first" });
    mergeLimit(merged, books, "third", refuses(7));
    mergeLimit(merged, vendor, "fourth", refuses(7));
    expect(merged).toMatchObject({ policy: { name: "books" }, limitName: "third" });
  });

  test("has the longest of all delays, whichever limit is named", () => {
    const { limitName, delayUs, decision } = mergedOf({ a: allows(9, 5, 7), b: allows(1, 5, 3), c: allows(5, 5, 6) });
    expect([limitName, delayUs, decision.delayUs]).toEqual(["b", 7, 3]);
  });

  test("keeps a copy: later changes to the store's decision do not affect it", () => {
    const merged = newMergedDecision();
    const decision = allows(3);
    mergeLimit(merged, books, "burst", decision);
    decision.remaining = 99;
    expect(merged.decision.remaining).toBe(3);
  });
});

describe("a merged decision into which another is merged", () => {
  test("has all that refused, the longest wait, and the most restrictive limit of both", () => {
    const merged = mergedOf({ easy: allows(50, 5, 7) });
    const own = newMergedDecision();
    mergeLimit(own, vendor, "burst", refuses(10));
    mergeLimit(own, vendor, "daily", refuses(20));
    mergeLimit(own, vendor, "shape", allows(1, 5, 9));
    mergeAll(merged, own);
    expect(merged).toMatchObject({ allowed: false, violated: ["burst", "daily"], delayUs: 9 });
    expect(merged).toMatchObject({ policy: vendor, limitName: "daily", decision: { retryAfterUs: 20 } });
  });

  test("stays the same if the other has no limits merged", () => {
    const merged = mergedOf({ easy: allows(50) });
    mergeAll(merged, newMergedDecision());
    expect(merged).toMatchObject({ allowed: true, policy: books, limitName: "easy" });
  });
});
