// The keys of counters in Redis, and the numbers that scripts are given about a counter. Gateways count under these keys, and the
// control plane reads and resets what is there.

import type { CalendarWindow } from "../algorithms/calendar-window.ts";
import { type Rate, sizeOf } from "../algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../compiled/compile.ts";

const prefix = "sluice:";

/** Returns the key of one limit's counter. */
export function keyOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): string {
  return prefix + policy.counterPrefix + keyValues + limit.counterSuffix;
}

/** Returns the key of the debt beside a counter: what responses took beyond the limit. @param key of the counter */
export function debtKeyOf(key: string): string {
  return `${key}:debt`;
}

/** Returns the key of the ledger, where Redis records which units of a policy gateways have on lease. No limit has this name. */
export function ledgerKeyOf(policy: CompiledPolicy, keyValues: string): string {
  return `${prefix + policy.counterPrefix + keyValues}}::leases`;
}

/** Returns the key of what a caller holds of a policy: of slots that it was given under this name. No limit has this name. */
export function holdKeyOf(policy: CompiledPolicy, keyValues: string, name: string): string {
  return `${prefix + policy.counterPrefix + keyValues}}::hold:${name}`;
}

/**
 * Returns what scripts are given in place of a burst: the moments between which the windows around now lie, in µs since the epoch.
 *
 * @param whole writes every digit of a number
 */
export function windowMoments(window: CalendarWindow, whole: (this: void, number: number) => string): string {
  const { previousUs, startUs, endUs, nextEndUs } = window;
  return `${whole(previousUs)} ${whole(startUs)} ${whole(endUs)} ${whole(nextEndUs)}`;
}

/**
 * Returns what every script is given about a limit, after its algorithm and before the cost: quota, window in µs, and its size. That is the
 * burst or the precision; of a shaped-bucket, a text of its burst, initial and warmUp in µs: "100/0/30000000".
 * Windows of the calendar have their moments besides (`windowMoments`).
 */
export function scriptNumbers(rate: Rate): [quota: number, windowUs: number, size: number | string] {
  const { quota, windowUs } = rate;
  if (rate.algorithm !== "shaped-bucket") return [quota, windowUs, sizeOf(rate)];
  return [quota, windowUs, `${rate.burst}/${rate.initial}/${rate.warmUpUs}`];
}
