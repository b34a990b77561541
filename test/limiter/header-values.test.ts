import fc from "fast-check";
import { parseList } from "structured-headers";
import { describe, expect, test } from "vitest";
import { type Decision, emptyDecision, endless, never } from "../../limiter/src/algorithms/decision.ts";
import { rateOf } from "../../limiter/src/algorithms/rate.ts";
import { compilePolicy } from "../../limiter/src/compiled/compile.ts";
import {
  isEndless,
  quotaExceededDetail,
  rateLimitItem,
  rateLimitPolicyItem,
  retryAfterSeconds,
  wholeSeconds,
} from "../../limiter/src/header-values.ts";
import { Counter, day, maxUnits, second, startUs } from "./algorithms/counter.ts";
import { policyNamed } from "./policies.ts";

/** Reads a structured field as a client does. @returns each item's text and its parameters */
function read(field: string): [unknown, Record<string, unknown>][] {
  return parseList(field).map(([item, parameters]) => [item, Object.fromEntries(parameters)]);
}

const decisionOf = (fields: Partial<Decision>): Decision => ({ ...emptyDecision(), ...fields });

describe("RateLimit-Policy", () => {
  test("lists every limit of the policy with its capacity and the time in which it refills", () => {
    const { policyHeader } = compilePolicy(
      "shop",
      policyNamed("books", {
        limits: [
          { name: "burst", algorithm: "token-bucket", quota: 2, window: "1s", burst: 10 },
          { name: "daily", algorithm: "fixed-window", quota: 5_000, window: "1d" },
        ],
      }),
    );
    expect(policyHeader).toBe('"burst";q=10;w=5, "daily";q=5000;w=86400');
    expect(read(policyHeader)).toEqual([
      ["burst", { q: 10, w: 5 }],
      ["daily", { q: 5_000, w: 86_400 }],
    ]);
  });

  test("rounds seconds up", () => {
    const bucket = rateOf({ algorithm: "token-bucket", quota: 7, windowUs: 11 * second, burst: 3, precisionUs: 0 });
    expect(rateLimitPolicyItem("x", bucket)).toBe('"x";q=3;w=5');
    const window = rateOf({ algorithm: "fixed-window", quota: 7, windowUs: 1_000, burst: 7, precisionUs: 0 });
    expect(rateLimitPolicyItem("x", window)).toBe('"x";q=7;w=1');
    // It fills in a third of a µs, and in 1 s and a third of a µs.
    const rest = { algorithm: "token-bucket", quota: 3_000_000, windowUs: 1_000_000, precisionUs: 0 } as const;
    expect(rateLimitPolicyItem("x", rateOf({ ...rest, burst: 1 }))).toBe('"x";q=1;w=1');
    expect(rateLimitPolicyItem("x", rateOf({ ...rest, burst: 3_000_001 }))).toBe('"x";q=3000001;w=2');
  });

  test("counts a leaky bucket's departing request and those that may wait, and has a sliding window's window", () => {
    const limit = { quota: 2, windowUs: second, burst: 9, precisionUs: 100_000 };
    expect(rateLimitPolicyItem("x", rateOf({ algorithm: "leaky-bucket", ...limit }))).toBe('"x";q=10;w=5');
    expect(rateLimitPolicyItem("x", rateOf({ algorithm: "sliding-window", ...limit }))).toBe('"x";q=2;w=1');
    expect(rateLimitPolicyItem("x", rateOf({ algorithm: "sliding-log", ...limit }))).toBe('"x";q=2;w=1');
  });

  test("has the number of slots in the draft's unit for them, and no window", () => {
    const { policyHeader } = compilePolicy(
      "shop",
      policyNamed("books", {
        limits: [
          { name: "uploads", algorithm: "concurrency", quota: 3 },
          { name: "daily", algorithm: "sliding-log", quota: 5_000, window: "1d" },
        ],
      }),
    );
    expect(policyHeader).toBe('"uploads";q=3;qu="concurrent-requests", "daily";q=5000;w=86400');
    expect(read(policyHeader)).toEqual([
      ["uploads", { q: 3, qu: "concurrent-requests" }],
      ["daily", { q: 5_000, w: 86_400 }],
    ]);
  });

  test("is a structured field for every legal limit", () => {
    const limits = fc.record({
      quota: fc.integer({ min: 1, max: maxUnits }),
      windowUs: fc.integer({ min: 1, max: 366 * 86_400_000 }).map((windowMs) => windowMs * 1_000),
      burst: fc.integer({ min: 1, max: maxUnits }),
    });
    fc.assert(
      fc.property(limits, (limit) => {
        const rate = rateOf({ algorithm: "token-bucket", ...limit, precisionUs: 0 });
        expect(read(rateLimitPolicyItem("x", rate))).toMatchObject([["x", { q: limit.burst }]]);
      }),
      { examples: [[{ quota: 1, windowUs: 366 * day, burst: maxUnits }]] },
    );
  });
});

const dateOf = (seconds: number) => new Date(seconds * 1_000).toISOString().slice(0, 19);
const refused = (fields: Partial<Decision>, nowMs = 0) =>
  quotaExceededDetail(decisionOf({ allowed: false, ...fields }), nowMs, dateOf);

describe("the reason of a refusal", () => {
  test.each([
    [1, "Try again in 1 s."],
    [120, "Try again in 120 s."],
    [121, "Try again in 2 minutes and 1 second, at 2026-11-28T12:02:01."],
    [180, "Try again in 3 minutes, at 2026-11-28T12:03:00."],
    [3_599, "Try again in 59 minutes and 59 seconds, at 2026-11-28T12:59:59."],
    [3_600, "Try again in 1 hour, at 2026-11-28T13:00:00."],
    [3_661, "Try again in 1 hour and 2 minutes, at 2026-11-28T13:01:01."],
    [86_399, "Try again in 24 hours, at 2026-11-29T11:59:59."],
    [86_400, "Try again in 1 day, at 2026-11-29T12:00:00."],
    [370_654, "Try again in 4 days and 7 hours, at 2026-12-02T18:57:34."],
  ])("after %i s", (seconds, detail) => {
    const nowMs = Date.UTC(2026, 10, 28, 12, 0, 0);
    expect(refused({ retryAfterUs: seconds * second, resetAfterUs: seconds * second }, nowMs)).toBe(detail);
  });

  test("has the end of a window that Redis saw a little earlier", () => {
    const nowMs = Date.UTC(2026, 10, 28, 12, 0, 0);
    expect(refused({ retryAfterUs: 43_200 * second + 900, resetAfterUs: second }, nowMs)).toBe(
      "Try again in 12 hours and 1 minute, at 2026-11-29T00:00:00.",
    );
  });
});

const itemOf = (name: string, { remaining, resetAfterUs }: Decision) =>
  rateLimitItem(name, `${remaining}`, `${wholeSeconds(resetAfterUs)}`);

describe("RateLimit", () => {
  test("has the name, the units left and the seconds until all are free", () => {
    const field = itemOf("burst", decisionOf({ remaining: 3, resetAfterUs: 1_000_001 }));
    expect(field).toBe('"burst";r=3;t=2');
    expect(read(field)).toEqual([["burst", { r: 3, t: 2 }]]);
  });

  test("shows 0 units and 0 seconds as 0", () => {
    expect(itemOf("burst", decisionOf({}))).toBe('"burst";r=0;t=0');
  });

  test("is a structured field for a debt of ages", () => {
    const counter = new Counter(
      rateOf({ algorithm: "token-bucket", quota: 1, windowUs: 366 * day, burst: maxUnits, precisionUs: 0 }),
    );
    expect(read(itemOf("x", counter.ask(startUs, maxUnits)))).toEqual([["x", { r: 0, t: 9_007_199_255 }]]);
  });
});

describe("Retry-After", () => {
  test("is in whole seconds, rounded up", () => {
    expect(retryAfterSeconds(decisionOf({ allowed: false, retryAfterUs: 2_000_000 }))).toBe(2);
    expect(retryAfterSeconds(decisionOf({ allowed: false, retryAfterUs: 2_000_001 }))).toBe(3);
    expect(retryAfterSeconds(decisionOf({ allowed: false, retryAfterUs: 1 }))).toBe(1);
  });

  test("is never 0", () => {
    expect(retryAfterSeconds(decisionOf({ retryAfterUs: 0 }))).toBe(1);
  });

  test("is absent if no wait can help", () => {
    expect(retryAfterSeconds(decisionOf({ allowed: false, retryAfterUs: never }))).toBeUndefined();
  });

  test("is long enough: a client that waits so long is allowed", () => {
    const counter = new Counter(
      rateOf({ algorithm: "token-bucket", quota: 7, windowUs: 11 * second, burst: 3, precisionUs: 0 }),
    );
    counter.ask(startUs, 3);
    const seconds = retryAfterSeconds(counter.ask(startUs, 2)) as number;
    expect(seconds).toBe(4);
    expect(counter.allows(startUs + seconds * second, 2)).toBe(true);
  });
});

test("whole seconds are rounded up to the µs", () => {
  expect([0, 1, 999_999, 1_000_000, 1_000_001].map(wholeSeconds)).toEqual([0, 1, 1, 1, 2]);
});

describe("a lifetime", () => {
  const rate = rateOf({ algorithm: "fixed-window", quota: 500, windowUs: endless, burst: 500, precisionUs: 0 });

  test("has no time in the headers", () => {
    expect(rateLimitPolicyItem("trial", rate)).toBe('"trial";q=500');
    expect(rateLimitItem("trial", "3", undefined)).toBe('"trial";r=3');
    expect(rateLimitItem("trial", "3", "7")).toBe('"trial";r=3;t=7');
  });

  test("is known by the time that is left of it, also when some has passed", () => {
    expect([endless, endless / 2].map((resetAfterUs) => isEndless({ resetAfterUs }))).toEqual([true, true]);
    expect([0, 366 * day, endless / 2 - 1].map((resetAfterUs) => isEndless({ resetAfterUs }))).toEqual([
      false,
      false,
      false,
    ]);
  });

  test("is refused with its reason, and other limits with theirs", () => {
    expect(refused({ retryAfterUs: never, resetAfterUs: endless })).toBe(
      "The limit has no units left for this request, and none come back by themselves.",
    );
    expect(refused({ retryAfterUs: never, resetAfterUs: 60 * second })).toBe(
      "The request costs more than its limit ever holds.",
    );
    expect(refused({ retryAfterUs: 1, resetAfterUs: 60 * second })).toBe("Try again in 1 s.");
  });
});
