// Charges a group of counters in Redis: all or none.
//
// KEYS   the counters
// ARGV   five a counter: algorithm, quota (units), window (µs), burst (units), cost (units)
// reply  [1 if allowed else 0, then four a counter: 1 if it allows else 0, remaining (units), retry after (µs, -1 for
//        never), reset after (µs)]
// Time is Redis' own. Atomic as every script is: no other command runs between the first GET and the last SET.
// A counter is stored as "<moment in µs> <count>", with a time to live after which it is as if never used.

import { describe, lifetimeUs, rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { type Counter, chargeAll, newCounter } from "../../../limiter/src/charge-all.ts";
import { emptyDecision } from "../../../limiter/src/decision.ts";

declare const redis: {
  call(this: void, command: "TIME"): [seconds: string, micros: string];
  call(this: void, command: "GET", key: string): string | false;
  call(this: void, command: "SET", key: string, value: string, px: "PX", ms: string): void;
};

/** A hundred years, in ms. */
const longestLifetimeMs = 3_155_760_000_000;

export function chargeCounters(keys: string[], argv: string[]): number[] {
  const time = redis.call("TIME");
  const nowUs = (tonumber(time[0]) as number) * 1_000_000 + (tonumber(time[1]) as number);
  const count = keys.length;
  const counters: Counter[] = [];
  for (let i = 0; i < count; i++) {
    const rate = rateOf({
      name: "",
      algorithm: argv[i * 5] as "token-bucket" | "fixed-window",
      quota: tonumber(argv[i * 5 + 1]) as number,
      windowUs: tonumber(argv[i * 5 + 2]) as number,
      burst: tonumber(argv[i * 5 + 3]) as number,
    });
    const counter = newCounter(rate, tonumber(argv[i * 5 + 4]) as number);
    const stored = redis.call("GET", keys[i] as string);
    if (stored !== false) {
      const [atUs, units] = string.match(stored, "^(%d+) (%d+)$");
      // What is no counter is one that was never seen.
      counter.atUs = tonumber(atUs ?? "0") as number;
      counter.count = tonumber(units ?? "0") as number;
    }
    counters[i] = counter;
  }

  const allowed = chargeAll(counters, count, nowUs);
  const decision = emptyDecision();
  const reply: number[] = [allowed ? 1 : 0];
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    // A refusal changes a state too, where the clock stepped back.
    if (counter.atUs !== counter.beforeAtUs || counter.count !== counter.beforeCount) {
      const lifeMs = math.min(math.ceil(lifetimeUs(counter.rate, counter, nowUs) / 1000), longestLifetimeMs);
      redis.call(
        "SET",
        keys[i] as string,
        string.format("%.0f %.0f", counter.atUs, counter.count),
        "PX",
        string.format("%.0f", lifeMs),
      );
    }
    describe(counter.rate, counter, nowUs, counter.cost, counter.allowed, decision);
    reply[i * 4 + 1] = counter.allowed ? 1 : 0;
    reply[i * 4 + 2] = decision.remaining;
    reply[i * 4 + 3] = decision.retryAfterUs;
    reply[i * 4 + 4] = decision.resetAfterUs;
  }
  return reply;
}
