// Tells what the check API says of a check (docs/operations.md, "Check API"), and compares it with what the gateway said.

import type { Check, Checks } from "../world.ts";
import type { Applied, Reason } from "./applicability.ts";
import type { Look } from "./counters.ts";
import type { Limit } from "./limits.ts";
import { largest } from "./rational.ts";

/** Checks of the same policy and key are one if all of the request are charged or none, except for peeks, with the sum of their costs and the plan of the first. */
export interface CheckGroup {
  readonly check: Check;
  /** Places of its checks in the request. */
  readonly places: readonly number[];
}

export type Result =
  | { readonly allowed: boolean; readonly reasons: readonly (Reason | "shadow")[] }
  | {
      readonly allowed: boolean;
      readonly figures: readonly Figures[];
      /** What is said if another check refuses, so that this one is refunded. */
      readonly ifRefunded: readonly Figures[];
    };

/** Those of one limit, of which the result has one. */
interface Figures {
  readonly limit: number;
  readonly remaining: number;
  readonly retryAfter: number | null;
  /** undefined: the documents give no number. null: there is no such time. */
  readonly resetsAfter: readonly (number | null)[] | undefined;
  readonly delayUs: bigint;
}

export interface HeardResult {
  readonly allowed: boolean;
  readonly reason?: string;
  readonly limit?: number;
  readonly remaining?: number;
  readonly retryAfter?: number | null;
  readonly resetAfter?: number | null;
  readonly delay?: number;
}

/** What a worker remembers of a limit that refused. */
interface Remembered {
  readonly limit: Limit;
  readonly remaining: bigint;
  readonly resetsUs: readonly bigint[];
}

export function groupsOf({ checks, mode }: Pick<Checks, "checks" | "mode">): CheckGroup[] {
  const groups = new Map<string, CheckGroup>();
  for (const [i, check] of checks.entries()) {
    const isAlone = check.peek === true || mode === "each";
    const name = JSON.stringify([check.policy, check.key, ...(isAlone ? [i] : [])]);
    const { check: first = check, places = [] } = groups.get(name) ?? {};
    groups.set(name, { check: first, places: [...places, i] });
  }
  // Peeks look before the others charge.
  return [...groups.values()].sort((a, b) => Number(b.check.peek === true) - Number(a.check.peek === true));
}

/** @param now what the limits have without this check @param isPeek shows that */
export function resultOf({ limits }: Applied, looks: readonly Look[], now: readonly Look[], isPeek: boolean): Result {
  const allowed = looks.every((one) => one.allowed);
  const retryAfter = allowed ? 0 : longest(looks.filter((one) => !one.allowed));
  const delayUs = allowed ? largest(0n, ...looks.map((one) => one.delayUs)) : 0n;
  const figuresOf = ({ remaining, resetsUs }: Look, i: number, others: readonly bigint[] = []): Figures => ({
    limit: Number(limits[i]?.limit.capacity),
    remaining: Number(remaining),
    retryAfter,
    resetsAfter: resetsAfterOf(limits[i]?.limit, resetsUs, others),
    delayUs,
  });
  const shown = (isPeek ? now : looks).map((one, i) => figuresOf(one, i));
  const speaking = shown.filter((_, i) => allowed || looks[i]?.allowed === false);
  const fewest = Math.min(...speaking.map(({ remaining }) => remaining));
  return {
    allowed,
    figures: allowed ? speaking.filter(({ remaining }) => remaining === fewest) : speaking,
    // The time may still include the units that were refunded.
    ifRefunded: now.map((one, i) => figuresOf(one, i, looks[i]?.resetsUs)),
  };
}

/** What a worker says that remembers a refusal by these limits, which may change after so long. */
export function resultOfRefusal(refusing: readonly Remembered[], retryUs: bigint | "never"): Result {
  const figures = refusing.map(({ limit, remaining, resetsUs }) => ({
    limit: Number(limit.capacity),
    remaining: Number(remaining),
    retryAfter: retryUs === "never" ? null : Math.max(1, secondsUp(retryUs)),
    resetsAfter: resetsAfterOf(limit, resetsUs),
    delayUs: 0n,
  }));
  return { allowed: false, figures, ifRefunded: figures };
}

function resetsAfterOf(limit: Limit | undefined, resetsUs: readonly bigint[], others: readonly bigint[] = []) {
  if (limit?.isForEver === true) return [null];
  return resetsUs.length === 0 ? undefined : [...resetsUs, ...others].map(secondsUp);
}

function longest(refusing: readonly Look[]): number | null {
  const waits = refusing.map(({ retryUs }) => retryUs);
  if (waits.includes("never")) return null;
  return Math.max(1, ...waits.map((us) => (typeof us === "bigint" ? secondsUp(us) : 1)));
}

export function secondsUp(us: bigint): number {
  return Number((us + 999_999n) / 1_000_000n);
}

/** @param isRefunded whether it is charged nothing because another check refuses */
export function isHeard(result: Result, heard: HeardResult, isRefunded: boolean): boolean {
  if (result.allowed !== heard.allowed) return false;
  if ("reasons" in result) return result.reasons.some((reason) => reason === heard.reason);
  const figures = isRefunded && result.allowed ? [...result.ifRefunded, ...result.figures] : result.figures;
  return figures.some(
    ({ limit, remaining, retryAfter, resetsAfter, delayUs }) =>
      heard.limit === limit &&
      heard.remaining === remaining &&
      heard.retryAfter === retryAfter &&
      (resetsAfter === undefined || resetsAfter.includes(heard.resetAfter ?? null)) &&
      Math.round((heard.delay ?? 0) * 1_000_000) === Number(delayUs),
  );
}

export function resultWords(result: Result): string {
  return JSON.stringify(result, (_, value) => (typeof value === "bigint" ? `${value}` : value));
}
