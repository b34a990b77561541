import { describe, expect, it } from "vitest";
import { type Offer, type Shape, trafficOf } from "../../console/src/forecast/shapes.ts";

const startUs = 1_700_000_000_000_000;
const one = [{ key: { values: [] }, share: 1 }];

function offer(shape: Shape, durationSeconds: number, more: Partial<Offer> = {}): Offer {
  return { shape, startUs, durationSeconds, arrivals: "even", seed: 7, keys: one, ...more };
}

function secondsOf(shape: Shape, durationSeconds: number, more: Partial<Offer> = {}): number[] {
  return [...trafficOf(offer(shape, durationSeconds, more)).atUs].map((atUs) => (atUs - startUs) / 1_000_000);
}

/** How many come in each second. */
function perSecond(seconds: readonly number[], durationSeconds: number): number[] {
  const counts = Array.from({ length: durationSeconds }, () => 0);
  for (const at of seconds) counts[Math.floor(at)] = (counts[Math.floor(at)] ?? 0) + 1;
  return counts;
}

describe("requests of a shape", () => {
  it("come at equal distances when they are steady", () => {
    expect(secondsOf({ kind: "steady", perSecond: 4 }, 1)).toEqual([0, 0.25, 0.5, 0.75]);
  });

  it("come closer together in a ramp", () => {
    // After t seconds t²/2 × 4 requests have been offered.
    expect(secondsOf({ kind: "ramp", fromPerSecond: 0, toPerSecond: 8 }, 2)).toEqual(
      [0, 1, 2, 3, 4, 5, 6, 7].map((offered) => Math.floor(Math.sqrt(offered / 2) * 1e6 + 1e-9) / 1e6),
    );
  });

  it("come in the burst besides the steady ones", () => {
    const shape: Shape = { kind: "burst", perSecond: 2, requests: 30, atSeconds: 2, lastsSeconds: 1 };
    expect(perSecond(secondsOf(shape, 5), 5)).toEqual([2, 2, 32, 2, 2]);
  });

  it("have two peaks of the same height, a quarter and three quarters through", () => {
    const counts = perSecond(secondsOf({ kind: "two-peaks", perSecond: 0, peakPerSecond: 100 }, 8), 8);
    expect(counts).toEqual([19, 81, 82, 18, 19, 81, 82, 18]);
  });

  it("follow what was drawn: level before the first point and after the last", () => {
    const shape: Shape = {
      kind: "drawn",
      points: [
        { seconds: 1, perSecond: 10 },
        { seconds: 2, perSecond: 10 },
        { seconds: 2, perSecond: 3 },
      ],
    };
    expect(perSecond(secondsOf(shape, 4), 4)).toEqual([10, 10, 3, 3]);
  });

  it("are cut to the time that is played", () => {
    const points = [
      { seconds: -2, perSecond: 0 },
      { seconds: 2, perSecond: 8 },
    ];
    // From 4 a second at the beginning to 8 after two seconds, of which one is played: 5 requests.
    expect(secondsOf({ kind: "drawn", points }, 1)).toHaveLength(5);
  });

  it("are as many as were recorded in each step", () => {
    const points = [3, 0, 5].map((requests, seconds) => ({ seconds, requests }));
    const seconds = secondsOf({ kind: "recorded", points, stepSeconds: 1 }, 3);
    expect(perSecond(seconds, 3)).toEqual([3, 0, 5]);
    expect(seconds.slice(3)).toEqual([2, 2.2, 2.4, 2.6, 2.8]);
  });

  it("are the same for the same seed, and others for another", () => {
    const random = (seed: number) => secondsOf({ kind: "steady", perSecond: 100 }, 10, { arrivals: "random", seed });
    expect(random(1)).toEqual(random(1));
    expect(random(1)).not.toEqual(random(2));
    expect(random(1).length).toBeGreaterThan(900);
    expect(random(1).length).toBeLessThan(1100);
  });

  it("have the keys by their shares", () => {
    const keys = [
      { key: { values: ["a"] }, share: 3 },
      { key: { values: ["b"] }, share: 1 },
    ];
    const { keyOf } = trafficOf(offer({ kind: "steady", perSecond: 400 }, 1, { keys }));
    const ofA = [...keyOf].filter((key) => key === 0).length;
    expect(ofA).toBeGreaterThanOrEqual(299);
    expect(ofA).toBeLessThanOrEqual(301);
  });
});
