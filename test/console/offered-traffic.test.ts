// The traffic that a forecast plays.

import { expect, it } from "vitest";
import { trafficOf } from "../../console/src/forecast/shapes.ts";
import {
  askedSeconds,
  offerOf,
  shapeKinds,
  suggestedFor,
} from "../../console/src/pages/policies/forecast/offered-traffic.ts";

const nowMs = Date.UTC(2026, 0, 1, 12, 0, 30);
const policy = (quota: number, window: string, key: string[] = []) => ({
  key,
  limits: [{ algorithm: "fixed-window", quota, window }],
});

it.each([
  [10, "1s", 10, 20],
  [600, "1m", 60, 20],
  [5_000, "1h", 3_600, 3],
  [1_000_000, "1s", 10, 5_000],
])("begins with more than the first limit admits: %i in %s", (quota, window, durationSeconds, perSecond) => {
  expect(suggestedFor(policy(quota, window))).toMatchObject({ durationSeconds, perSecond });
});

it("plays every shape, of 100,000 requests at most, whatever the rate that is asked for", () => {
  for (const kind of shapeKinds) {
    const chosen = { ...suggestedFor(policy(10, "1s")), kind, perSecond: 1e9 };
    const recorded = [{ at: "2026-01-01T11:30:00.000Z", requests: 5_000_000 }];
    const { atUs } = trafficOf(offerOf(chosen, policy(10, "1s"), recorded, nowMs));
    expect(atUs.length, kind).toBeGreaterThan(1_000);
    expect(atUs.length, kind).toBeLessThanOrEqual(101_000);
  }
});

it("gives each client values of its own for each part of the key", () => {
  const chosen = { ...suggestedFor(policy(10, "1s")), clients: 2 };
  const { keys } = offerOf(chosen, policy(10, "1s", ["ip", "header:x-user", "const:free"]), [], nowMs);
  expect(keys.map(({ key }) => key.values)).toEqual([
    ["198.51.100.0", "client-1", "free"],
    ["198.51.100.1", "client-2", "free"],
  ]);
});

it("plays the last hour as it was, minute by minute", () => {
  const chosen = { ...suggestedFor(policy(10, "1s")), kind: "recorded" as const };
  const recorded = [
    { at: "2026-01-01T11:00:00.000Z", requests: 30 },
    { at: "2026-01-01T11:59:00.000Z", requests: 60 },
  ];
  const offer = offerOf(chosen, policy(10, "1s"), recorded, nowMs);
  const { atUs } = trafficOf(offer);
  expect(atUs).toHaveLength(90);
  expect(offer.startUs).toBe(Date.UTC(2026, 0, 1, 11) * 1_000);
  expect([...atUs].filter((at) => at < offer.startUs + 60_000_000)).toHaveLength(30);
});

it("plays rates as they are, and for a shorter time what would be too much", () => {
  const chosen = { ...suggestedFor(policy(50, "1s")), kind: "steady" as const, perSecond: 500, durationSeconds: 3_600 };
  const offer = offerOf(chosen, policy(50, "1s"), [], nowMs);
  expect(offer).toMatchObject({ shape: { kind: "steady", perSecond: 500 }, durationSeconds: 200 });
  expect(askedSeconds(chosen, [])).toBe(3_600);
});

it("plays the busiest minutes of an hour that was busier than can be played, with all their requests", () => {
  const chosen = { ...suggestedFor(policy(10, "1s")), kind: "recorded" as const };
  const recorded = Array.from({ length: 60 }, (_, i) => ({
    at: new Date(Date.UTC(2026, 0, 1, 11, i)).toISOString(),
    requests: i >= 20 && i < 30 ? 9_000 : 2_000,
  }));
  const offer = offerOf(chosen, policy(10, "1s"), recorded, nowMs);
  // Ten minutes of 9,000, and five of 2,000 beside them.
  expect(trafficOf(offer).atUs).toHaveLength(100_000);
  expect(offer.durationSeconds).toBe(900);
  expect(askedSeconds(chosen, recorded)).toBe(3_600);
  const minute = [{ at: "2026-01-01T11:30:00.000Z", requests: 600_000 }];
  expect(offerOf(chosen, policy(10, "1s"), minute, nowMs)).toMatchObject({
    startUs: Date.UTC(2026, 0, 1, 11, 30) * 1_000,
    durationSeconds: 10,
    shape: { points: [{ seconds: 0, requests: 100_000 }], stepSeconds: 10 },
  });
});
