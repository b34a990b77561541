// Writes the header values of a decided response, after draft-ietf-httpapi-ratelimit-headers-11: structured fields whose items
// carry the limit's name. Names are [a-z0-9-], so quoting them needs no escape.

import { type Decision, endless, never } from "./algorithms/decision.ts";
import { capacity, type Rate } from "./algorithms/rate.ts";
import { maxExact } from "./algorithms/wide-multiply.ts";

/**
 * Returns one item of `RateLimit-Policy`: `"burst";q=10;w=5`. Here w is how long the capacity takes to come back, in whole
 * seconds. A lifetime's total has no w, nor have windows of the calendar, which differ in length. Slots have no window, but a unit that the draft defines: `"uploads";q=3;qu="concurrent-requests"`.
 */
export function rateLimitPolicyItem(name: string, rate: Rate): string {
  const quota = `"${name}";q=${capacity(rate)}`;
  if (rate.algorithm === "concurrency") return `${quota};qu="concurrent-requests"`;
  if (rate.windowUs === endless || rate.algorithm === "calendar-window") return quota;
  const isBucket =
    rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket" || rate.algorithm === "shaped-bucket";
  if (!isBucket) return `${quota};w=${wholeSeconds(rate.windowUs)}`;
  // A started µs counts: a bucket that fills in less than one has w=1, and not 0.
  return `${quota};w=${wholeSeconds(rate.fullRest === 0 ? rate.fullUs : rate.fullUs + 1)}`;
}

/**
 * Returns one item of `RateLimit`: `"burst";r=3;t=2`.
 *
 * @param remaining units @param reset whole seconds; undefined: units do not come back by themselves, and there is no t
 */
export function rateLimitItem(name: string, remaining: string, reset: string | undefined): string {
  if (reset === undefined) return `"${name}";r=${remaining}`;
  return `"${name}";r=${remaining};t=${reset}`;
}

/** Returns the value of `Retry-After`, or undefined if no wait can help. Never 0. */
export function retryAfterSeconds(decision: Decision): number | undefined {
  if (decision.retryAfterUs === never) return undefined;
  return Math.max(1, wholeSeconds(decision.retryAfterUs));
}

/** People read longer times with a date. */
const mostPlainSeconds = 120;
/** So long ago Redis may have decided. */
const roundTripSeconds = 0.05;

/**
 * Returns what a refusal says about when to try again: `Try again in 7 s.`, `Try again in 4 days and 7 hours, at 2026-12-02 18:57:34 UTC.`
 *
 * @param nowMs when it was decided
 * @param dateOf writes a moment, in seconds since the epoch
 */
export function quotaExceededDetail(
  decision: Decision,
  nowMs: number,
  dateOf: (this: void, seconds: number) => string,
): string {
  const seconds = retryAfterSeconds(decision);
  if (seconds !== undefined) {
    if (seconds <= mostPlainSeconds) return `Try again in ${seconds} s.`;
    const moment = Math.ceil(nowMs / 1_000 + decision.retryAfterUs / 1_000_000 - roundTripSeconds);
    return `Try again in ${spanText(seconds)}, at ${dateOf(moment)}.`;
  }
  return isEndless(decision)
    ? "The limit has no units left for this request, and none come back by themselves."
    : "The request costs more than its limit ever holds.";
}

/** Returns a time in its two largest units, rounded up. */
function spanText(seconds: number): string {
  if (seconds < 3_600) return inTwoUnits(seconds, 60, "minute", "second");
  if (seconds < 86_400) return inTwoUnits(Math.ceil(seconds / 60), 60, "hour", "minute");
  return inTwoUnits(Math.ceil(seconds / 3_600), 24, "day", "hour");
}

function inTwoUnits(small: number, ofLarge: number, largeUnit: string, smallUnit: string): string {
  const large = Math.floor(small / ofLarge);
  const rest = small - large * ofLarge;
  return rest === 0 ? counted(large, largeUnit) : `${counted(large, largeUnit)} and ${counted(rest, smallUnit)}`;
}

function counted(count: number, unit: string): string {
  return `${count} ${count === 1 ? unit : `${unit}s`}`;
}

/** Returns whether the limit that decided never gives units again by itself. */
export function isEndless({ resetAfterUs }: Pick<Decision, "resetAfterUs">): boolean {
  return resetAfterUs >= endless / 2;
}

/**
 * Rounds up, so that a client that waits this long waits long enough. At most 285 years, which a structured field can still
 * carry.
 */
export function wholeSeconds(us: number): number {
  return Math.ceil(Math.min(us, maxExact) / 1_000_000);
}
