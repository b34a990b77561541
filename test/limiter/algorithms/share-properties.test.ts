// What all shares together admit while Redis is away, for any requests, any number of outages and any ends of windows.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { capacity, type Rate, rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { beginShare, type LastKnown, shareOf } from "../../../limiter/src/algorithms/share.ts";
import type { Bucket } from "../../../limiter/src/algorithms/token-bucket.ts";
import { starts } from "../legal-limits.ts";
import { Counter, ms } from "./counter.ts";

const counting = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

/** What one gateway has, and what it has admitted since Redis last reported no units. */
interface Gateway {
  readonly share: Counter;
  known: LastKnown | undefined;
  admitted: number;
}

const worlds = (algorithm: (typeof counting)[number]) =>
  fc
    .record({
      gateways: fc.integer({ min: 1, max: 3 }),
      quota: fc.integer({ min: 1, max: 40 }),
      burst: fc.integer({ min: 1, max: 40 }),
      windowMs: fc.integer({ min: 1, max: 20 }),
      blocks: fc.constantFrom(1, 2, 5, 10, 20),
      cost: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 5 })),
    })
    .chain(({ gateways, quota, burst, windowMs, blocks, cost }) => {
      const windowUs = windowMs * ms;
      const precisionUs = algorithm === "sliding-window" ? windowUs / blocks : 0;
      const rate = rateOf({ algorithm, quota, windowUs, burst, precisionUs });
      const step = fc.record({
        gateway: fc.nat(gateways - 1),
        afterUs: fc.oneof(fc.nat(100), fc.nat(Math.floor(windowUs / 8)), fc.nat(2 * windowUs)),
        requests: fc.integer({ min: 1, max: 50 }),
        /** Whether Redis goes away, or comes back. */
        turns: fc.nat(5).map((drawn) => drawn === 0),
      });
      return fc.record({
        rate: fc.constant(rate),
        share: fc.constant(shareOf(rate, gateways, Math.min(cost, capacity(rate)))),
        cost: fc.constant(Math.min(cost, capacity(rate))),
        gateways: fc.constant(gateways),
        fromUs: starts,
        steps: fc.array(step, { minLength: 1, maxLength: 80, size: "max" }),
      });
    });

describe.each(counting)("shares by %s", (algorithm) => {
  test("of a key for which Redis had no units left admit no more than refills since", () => {
    fc.assert(
      fc.property(worlds(algorithm), ({ rate, share, cost, gateways, fromUs, steps }) => {
        const redis = new Counter(rate);
        const fleet = Array.from(
          { length: gateways },
          (): Gateway => ({
            share: new Counter(share),
            known: undefined,
            admitted: 0,
          }),
        );
        let away = false;
        let nowUs = fromUs;
        for (const { gateway, afterUs, requests, turns } of steps) {
          nowUs += afterUs;
          if (turns) away = !away;
          const one = fleet[gateway] as Gateway;
          for (let request = 0; request < requests; request++) {
            if (!away) {
              const { allowed, retryAfterUs } = redis.ask(nowUs, cost);
              if (allowed) continue;
              one.known = { atUs: nowUs, nothingUntilUs: nowUs + retryAfterUs, limits: undefined };
              one.admitted = 0;
            } else if (one.known !== undefined) {
              beginShare(share, one.share.state, memoryRing, one.known, nowUs);
              if (!one.share.allows(nowUs, cost)) continue;
              one.admitted += cost;
              const sinceUs = Math.max(one.known.nothingUntilUs, one.known.atUs);
              const [used, refilled] = [one.admitted * share.windowUs, Math.max(nowUs - sinceUs, 0) * share.quota];
              if (used > refilled) expect(used).toBeLessThanOrEqual(refilled);
            } else {
              one.share.ask(nowUs, cost);
            }
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  test("of any other key admit once what they hold, and then what refills", () => {
    fc.assert(
      fc.property(worlds(algorithm), ({ share, cost, fromUs, steps }) => {
        const counter = new Counter(share);
        let [nowUs, admitted] = [fromUs, 0];
        for (const { afterUs, requests } of steps) {
          nowUs += afterUs;
          admitted += cost * counter.allowedOf(requests, nowUs, cost);
          const [beyond, refilled] = [(admitted - capacity(share)) * share.windowUs, (nowUs - fromUs) * share.quota];
          if (beyond > refilled) expect(beyond).toBeLessThanOrEqual(refilled);
        }
      }),
      { numRuns: 300 },
    );
  });
});

/** Two plans that share a counter because they fill in the same time, and requests of both at any costs. */
const plansAndCosts = (algorithm: "token-bucket" | "leaky-bucket") =>
  fc
    .record({
      gateways: fc.integer({ min: 1, max: 12 }),
      quota: fc.integer({ min: 1, max: 40 }),
      // A leaky-bucket has room for one more.
      capacity: fc.integer({ min: 2, max: 40 }),
      times: fc.integer({ min: 1, max: 20 }),
      windowMs: fc.integer({ min: 1, max: 20 }),
    })
    .chain(({ gateways, quota, capacity: held, times, windowMs }) => {
      const windowUs = windowMs * ms;
      const room = algorithm === "leaky-bucket" ? 1 : 0;
      const plan = (size: number) =>
        rateOf({ algorithm, quota: quota * size, windowUs, burst: held * size - room, precisionUs: 0 });
      const plans = [plan(1), plan(times)] as const;
      const step = fc.record({
        plan: fc.nat(1),
        cost: fc.oneof(fc.constant(1), fc.nat()),
        afterUs: fc.oneof(fc.constant(0), fc.nat(windowUs), fc.nat(windowUs * gateways)),
      });
      return fc.record({
        plans: fc.constant(plans),
        gateways: fc.constant(gateways),
        fromUs: starts,
        steps: fc.array(step, { minLength: 1, maxLength: 80, size: "max" }),
      });
    });

describe.each(["token-bucket", "leaky-bucket"] as const)("the share of a %s", (algorithm) => {
  test("admits no more because requests have other costs or plans in between", () => {
    fc.assert(
      fc.property(plansAndCosts(algorithm), ({ plans, gateways, fromUs, steps }) => {
        const counter = new Counter(plans[0]);
        let [nowUs, owedUs, mostUs] = [fromUs, 0, 0];
        for (const { plan, cost: drawn, afterUs } of steps) {
          nowUs += afterUs;
          const whole = plans[plan] as Rate;
          const cost = 1 + (drawn % capacity(whole));
          const share = shareOf(whole, gateways, cost) as Bucket;
          counter.rate = share as Rate;
          mostUs = Math.max(mostUs, share.fullUs + 1);
          if (!counter.allows(nowUs, cost)) continue;
          owedUs += Math.floor((cost * share.windowUs) / share.quota);
          expect(owedUs).toBeLessThanOrEqual(mostUs + nowUs - fromUs);
        }
      }),
      { numRuns: 500 },
    );
  });
});
