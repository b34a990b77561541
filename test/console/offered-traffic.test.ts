// The traffic that a forecast plays.

import { expect, it } from "vitest";
import { trafficOf } from "../../console/src/forecast/shapes.ts";
import { offerOf, shapeKinds, suggestedFor } from "../../console/src/pages/policies/forecast/offered-traffic.ts";

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
