// Limits with their defaults filled in, in exact units (docs/policies.md, "limits").

import type { AlgorithmName, LimitDocument } from "../world.ts";
import { type CalendarUnit, calendarUnits } from "./calendar.ts";
import { ceil, fraction, largest, least, type Rational } from "./rational.ts";

export interface Limit {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly quota: bigint;
  /** For concurrency, its ttl. 0: a window of the calendar, or one that never ends. */
  readonly windowUs: bigint;
  /** Whether it is a total that never comes back by itself. */
  readonly isForEver: boolean;
  readonly calendar?: { readonly unit: CalendarUnit; readonly timezone: string; readonly anchor?: number | string };
  /** Of a bucket: how many units it holds, with the one that departs from a leaky one. */
  readonly capacity: bigint;
  /** Of a bucket: units that a counter begins with. */
  readonly initial: bigint;
  readonly isShaped: boolean;
  readonly warmUpUs: bigint | undefined;
  /** Of a sliding window: the length of its blocks. */
  readonly blockUs: bigint;
  /** What tells its counter from that of other limits of the policy. */
  readonly counterName: string;
}

const unitsUs: Readonly<Record<string, bigint>> = {
  ms: 1_000n,
  s: 1_000_000n,
  m: 60_000_000n,
  h: 3_600_000_000n,
  d: 86_400_000_000n,
};

export function durationUs(text: string): bigint {
  const [, count = "", unit = ""] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? [];
  const us = unitsUs[unit];
  if (us === undefined) throw new Error(`expected a duration like 5s, got "${text}"`);
  return BigInt(count) * us;
}

/** @param cost the most that a request of the policy costs: a leaky-bucket always has room for it */
export function readLimit(document: LimitDocument, cost: bigint): Limit {
  const { name, algorithm, window = "" } = document;
  const quota = BigInt(document.quota);
  const isCalendar = calendarUnits.includes(window);
  const isForEver = window === "lifetime";
  const windowUs =
    algorithm === "concurrency" ? durationUs(document.ttl ?? "60s") : isCalendar || isForEver ? 0n : durationUs(window);
  const burst = BigInt(document.burst ?? document.quota);
  const isBucket = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  const blockUs = blockOf(document, windowUs);
  const calendar = isCalendar
    ? {
        unit: window as CalendarUnit,
        timezone: document.timezone ?? "UTC",
        ...(document.anchor === undefined ? {} : { anchor: document.anchor }),
      }
    : undefined;
  const capacity =
    algorithm === "leaky-bucket" ? waiting(document, quota, windowUs, burst, cost) + 1n : isBucket ? burst : quota;
  return {
    name,
    algorithm,
    quota,
    windowUs,
    isForEver,
    ...(calendar === undefined ? {} : { calendar }),
    capacity,
    initial: document.initial === undefined ? capacity : BigInt(document.initial),
    // One that begins full and warm is an ordinary bucket.
    isShaped: BigInt(document.initial ?? burst) !== burst || document.warmUp !== undefined,
    warmUpUs: document.warmUp === undefined ? undefined : durationUs(document.warmUp),
    blockUs,
    counterName: [
      name,
      algorithm,
      windowUs,
      ...(algorithm === "sliding-window" ? [blockUs] : []),
      ...(calendar === undefined ? [] : [calendar.unit, calendar.timezone, calendar.anchor ?? ""]),
    ].join(" "),
  };
}

/** How many units of a leaky-bucket wait: no more than depart within `maxDelay`, but always those of one request. */
function waiting({ maxDelay = "60s" }: LimitDocument, quota: bigint, windowUs: bigint, burst: bigint, cost: bigint) {
  const withinDelay = (durationUs(maxDelay) * quota) / windowUs;
  return largest(least(burst, withinDelay), least(burst, cost - 1n));
}

function blockOf({ algorithm, precision }: LimitDocument, windowUs: bigint): bigint {
  if (algorithm === "sliding-window") return precision === undefined ? windowUs / 10n : durationUs(precision);
  if (algorithm !== "sliding-log") return 0n;
  let block = 1n;
  while (windowUs / block > 1n << 30n) block *= 2n;
  return block;
}

/** The time in which a bucket refills so many units. */
export function timeOf({ quota, windowUs }: Limit, units: bigint): Rational {
  return fraction(units * windowUs, quota);
}

/** The item of the limit in `RateLimit-Policy`. */
export function policyItem(limit: Limit): string {
  if (limit.algorithm === "concurrency") return `"${limit.name}";q=${limit.quota};qu="concurrent-requests"`;
  if (limit.calendar !== undefined || limit.isForEver) return `"${limit.name}";q=${limit.capacity}`;
  const isBucket = limit.algorithm === "token-bucket" || limit.algorithm === "leaky-bucket";
  const us = isBucket ? ceil(timeOf(limit, limit.capacity)) : limit.windowUs;
  return `"${limit.name}";q=${limit.capacity};w=${(us + 999_999n) / 1_000_000n}`;
}
