// What the forecast says in exact numbers. That these are a gateway's numbers is shown by test/e2e/forecast.test.ts.

import { describe, expect, it } from "vitest";
import { responseTo } from "../../console/src/forecast/headers.ts";
import { forecastOf } from "../../console/src/forecast/request.ts";
import { limitNames, outcomes, type Simulation, simulate } from "../../console/src/forecast/simulate.ts";
import { zoneTransitions } from "../../console/src/forecast/zone-transitions.ts";
import { compilePolicy } from "../../limiter/src/compiled/compile.ts";
import type { Policy } from "../../limiter/src/document/policy.ts";
import { validatePolicy } from "../../limiter/src/document/validate.ts";
import { processorMs } from "../fixtures/measures/processor-time.ts";

const startUs = 1_700_000_000_000_000;

function policyOf(document: Record<string, unknown>): Policy {
  const { policy, problems } = validatePolicy({ name: "books", match: {}, ...document });
  if (policy === undefined) throw new Error(JSON.stringify(problems));
  return policy;
}

/** @param atMs after the start, one request each */
function play(policy: Policy, atMs: readonly number[], durationMs = 0): Simulation {
  const traffic = {
    atUs: Float64Array.from(atMs, (ms) => startUs + ms * 1000),
    keyOf: new Uint32Array(atMs.length),
    keys: [{ values: policy.key.map(() => "ann") }],
  };
  const bins = { fromUs: startUs, binUs: 1_000_000, binCount: 4 };
  return simulate(policy, traffic, { durationUs: durationMs * 1000, ...bins, withDecisions: true });
}

const outcomesOf = ({ decisions }: Simulation) => [...(decisions?.outcome ?? [])].map((code) => outcomes[code]);
const delaysOf = ({ decisions }: Simulation) => [...(decisions?.delayUs ?? [])].map((us) => us / 1000);

describe("a forecast", () => {
  it("admits the burst of a token bucket, and then what refills", () => {
    const limits = [{ name: "few", algorithm: "token-bucket", quota: 1, window: "1s", burst: 2 }];
    const simulation = play(policyOf({ limits }), [0, 0, 0, 1000, 1000, 2500, 2500]);
    expect(outcomesOf(simulation)).toEqual([
      "admitted",
      "admitted",
      "refused",
      "admitted",
      "refused",
      "admitted",
      "refused",
    ]);
    expect([...simulation.bins.offered]).toEqual([3, 2, 2, 0]);
    expect([...simulation.bins.admitted]).toEqual([2, 1, 1, 0]);
    expect([...simulation.bins.refused]).toEqual([1, 1, 1, 0]);
    expect(simulation.firstRefusal).toEqual({ atUs: startUs, keyIndex: 0, limits: ["few"] });
    expect(simulation.refusedBy).toEqual([{ limit: "few", requests: 3 }]);
    expect([...(simulation.decisions?.retryAfterUs ?? [])].slice(2, 5)).toEqual([1_000_000, 0, 1_000_000]);
  });

  it("charges all limits or none", () => {
    const limits = [
      { name: "wide", algorithm: "fixed-window", quota: 4, window: "1h" },
      { name: "narrow", algorithm: "sliding-log", quota: 2, window: "1s" },
    ];
    const simulation = play(policyOf({ limits }), [0, 1, 2, 3, 2000, 2001, 3500]);
    expect(simulation.totals).toMatchObject({ admitted: 4, refused: 3 });
    expect(simulation.refusedBy).toEqual([
      { limit: "wide", requests: 1 },
      { limit: "narrow", requests: 2 },
    ]);
  });

  it("delays in a leaky bucket", () => {
    const limits = [{ algorithm: "leaky-bucket", quota: 10, window: "1s", burst: 2 }];
    const simulation = play(policyOf({ limits }), [0, 0, 0, 0]);
    expect(outcomesOf(simulation)).toEqual(["admitted", "delayed", "delayed", "refused"]);
    expect(delaysOf(simulation)).toEqual([0, 100, 200, 0]);
    expect(simulation.longestDelayUs).toBe(200_000);
  });

  it("holds slots until requests end, however often they are renewed", () => {
    const limits = [{ algorithm: "concurrency", quota: 1, ttl: "1s" }];
    const simulation = play(policyOf({ limits }), [0, 2999, 3000, 3001], 3000);
    expect(outcomesOf(simulation)).toEqual(["admitted", "refused", "admitted", "refused"]);
  });

  it("lets requests wait for their turn, and refuses those that would wait too long", () => {
    const limits = [{ algorithm: "sliding-log", quota: 1, window: "1s" }];
    const policy = policyOf({ limits, onLimit: { action: "delay", maxDelay: "2500ms" } });
    const simulation = play(policy, [0, 100, 200, 300]);
    expect(outcomesOf(simulation)).toEqual(["admitted", "delayed", "delayed", "refused"]);
    expect(delaysOf(simulation)).toEqual([0, 900, 1800, 0]);
    expect(simulation.bins.delayed[0]).toBe(2);
  });

  it("lets everything go on in shadow mode, and says what would be refused", () => {
    const limits = [{ algorithm: "fixed-window", quota: 1, window: "1h" }];
    const simulation = play(policyOf({ limits, mode: "shadow" }), [0, 1, 2]);
    expect(simulation.totals).toMatchObject({ admitted: 1, "would-refuse": 2, refused: 0 });
    expect(simulation.bins.admitted[0]).toBe(3);
    expect(simulation.bins.wouldRefuse[0]).toBe(2);
  });

  it("knows when the clocks of a zone change", () => {
    const march = Date.UTC(2026, 2, 28) / 1000;
    const transitions = zoneTransitions("Europe/Berlin", march, march + 2 * 86_400);
    expect(transitions.slice(-2)).toEqual([
      [Date.UTC(2025, 9, 26, 1) / 1000, 60],
      [Date.UTC(2026, 2, 29, 1) / 1000, 120],
    ]);
    // A year's window began before.
    expect(transitions[0]?.[0]).toBeLessThan(Date.UTC(2024, 0, 1) / 1000);
  });

  it("plays the draft and what is in force with the same traffic", () => {
    const document = (quota: number) => ({
      name: "books",
      match: {},
      limits: [{ algorithm: "fixed-window", quota, window: "1h" }],
    });
    const { draft, inForce } = forecastOf({
      draft: document(30),
      inForce: document(10),
      offer: {
        shape: { kind: "steady", perSecond: 10 },
        startUs: 1_699_999_200_000_000,
        durationSeconds: 5,
        arrivals: "even",
        seed: 1,
        keys: [{ key: { values: [] }, share: 1 }],
      },
      requestMs: 10,
      binCount: 5,
    });
    expect([...(draft?.bins.refused ?? [])]).toEqual([0, 0, 0, 10, 10]);
    expect([...(inForce?.bins.refused ?? [])]).toEqual([0, 10, 10, 10, 10]);
  });

  it("shows the response to a refused request", () => {
    const policy = policyOf({ limits: [{ name: "few", algorithm: "token-bucket", quota: 1, window: "10s" }] });
    const { decisions } = play(policy, [0, 0]);
    if (decisions === undefined) throw new Error("no decisions");
    expect(responseTo(policy, [], decisions, 1, 0, "ietf")).toEqual({
      status: 429,
      headers: [
        { name: "RateLimit-Policy", value: '"few";q=1;w=10' },
        { name: "RateLimit", value: '"few";r=0;t=10' },
        { name: "Retry-After", value: "10" },
        { name: "Content-Type", value: "application/problem+json" },
      ],
      body: '{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"Try again in 10 s.","violated-policies":["few"]}\n',
    });
  });
});

describe("a forecast of very many that wait", () => {
  const onLimit = { action: "delay", maxDelay: "5m", maxWaiting: 100_000 };
  const count = 50_000;

  it("lets all have their turns at one moment", () => {
    const limits = [{ algorithm: "fixed-window", quota: 30_000, window: "1m" }];
    const all = Array.from({ length: count }, () => 0);
    expect(play(policyOf({ limits, onLimit }), all).totals).toMatchObject({ admitted: 30_000, delayed: 20_000 });
  });

  it("takes no longer for each the more there are", () => {
    const limits = [{ name: "c", algorithm: "concurrency", quota: 1, ttl: "1s" }];
    const policy = policyOf({ limits, onLimit: { ...onLimit, maxDelay: "1s" } });
    const took = (length: number) => {
      const beganMs = processorMs();
      play(
        policy,
        Array.from({ length }, (_, i) => i / 1_000),
        200,
      );
      return (processorMs() - beganMs) / length;
    };
    took(count);
    expect(took(2 * count)).toBeLessThan(4 * took(count / 10) + 0.001);
  });
});

it("a decision names its limit, also if plans have more limits of other names than a byte counts", () => {
  const limitsOf = (plan: number) =>
    Array.from({ length: 16 }, (_, i) => ({
      name: `l${plan}-${i}`,
      algorithm: "fixed-window",
      quota: 5,
      window: "1m",
    }));
  const plans = Object.fromEntries(Array.from({ length: 32 }, (_, plan) => [`p${plan}`, limitsOf(plan)]));
  const policy = policyOf({ key: ["header:x-plan"], plans, planBy: "header:x-plan", defaultPlan: "p0" });
  const names = limitNames(compilePolicy("forecast", policy));
  const traffic = {
    atUs: Float64Array.of(startUs),
    keyOf: new Uint32Array(1),
    keys: [{ values: ["p31"] }],
  };
  const bins = { fromUs: startUs, binUs: 1_000_000, binCount: 1 };
  const { decisions } = simulate(policy, traffic, { durationUs: 0, ...bins, withDecisions: true });
  expect(names[decisions?.limitIndex[0] as number]).toMatch(/^l31-/);
});
