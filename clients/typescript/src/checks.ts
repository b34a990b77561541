// A check as callers write it, and its JSON as the gateway reads it: fields in one order, and none that the caller did not give.

import { described } from "./described-value.ts";

export interface Check {
  /** A policy of the token's app, or `APP/POLICY` of one that another app shares. */
  readonly policy: string;
  /** One value for each part of the policy's key. */
  readonly key: readonly string[];
  /** Units to charge; if absent, the policy's cost; 0: the check only looks. */
  readonly cost?: number | undefined;
  /** One of the policy's plans, if the policy is of the token's app and neither its key nor a consumer has the plan. */
  readonly plan?: string | undefined;
}

export type CheckOptions = Pick<Check, "cost" | "plan">;

export interface AcquireOptions extends CheckOptions {
  /** 1 to 60,000. */
  readonly maxWaitMs: number;
  /** Leaves the line when it aborts. Nothing is charged then, and the call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface HoldOptions extends Pick<Check, "plan"> {
  /** Slots to take; if absent, the policy's cost. */
  readonly slots?: number | undefined;
  /** How long the slots are held unless they are renewed: 1,000 to the limit's own ttl, which holds if this is absent. */
  readonly ttlMs?: number | undefined;
  /** 1 to 60,000; if absent, the call does not wait. */
  readonly maxWaitMs?: number | undefined;
}

export interface WayToAsk {
  readonly peek?: true;
  readonly report?: true;
  readonly maxWait?: string;
}

/**
 * Returns the check as it is now, whatever becomes of the caller's objects while it is decided.
 *
 * @param place before the names of its fields: "checks[1]." for example
 * @throws TypeError for text that is not valid Unicode: in JSON, two such keys could become one
 */
export function copyOf({ policy, key, cost, plan }: Check, place = ""): Check {
  requireUnicode(`${place}policy`, policy);
  requireUnicode(`${place}plan`, plan);
  const values: readonly string[] = Array.isArray(key) ? [...key] : key;
  if (Array.isArray(values)) for (const [i, value] of values.entries()) requireUnicode(`${place}key[${i}]`, value);
  return { policy, key: values, cost, plan };
}

function requireUnicode(name: string, value: unknown): void {
  if (typeof value !== "string" || value.isWellFormed()) return;
  throw new TypeError(`${name}: expected text that is valid Unicode, got ${described(value)}`);
}

/**
 * Returns the check's JSON, with its fields in the order of the contract. A check of no units only looks, and hears what one of the policy's
 * own cost would hear. The gateway refuses to report no units, or to wait for none.
 */
export function jsonOf({ policy, key, cost, plan }: Check, { peek, report, maxWait }: WayToAsk = {}): string {
  if (cost === 0 && report === undefined && maxWait === undefined) return jsonOf({ policy, key, plan }, { peek: true });
  return JSON.stringify({ policy, key, cost, plan, peek, report, maxWait });
}

/** Returns the JSON of a request for slots. @throws TypeError for a time that cannot be written as the gateway reads it */
export function jsonOfHold({ policy, key, plan }: Check, { slots, ttlMs, maxWaitMs }: HoldOptions): string {
  const ttl = ttlMs === undefined ? undefined : ttlOf(ttlMs);
  const maxWait = maxWaitMs === undefined ? undefined : maxWaitOf(maxWaitMs);
  return JSON.stringify({ policy, key, slots, ttl, plan, maxWait });
}

/** The gateway says which it gives. Longer ones than this would be written with an exponent. */
function ttlOf(ttlMs: unknown): string {
  const most = Number.MAX_SAFE_INTEGER;
  if (typeof ttlMs === "number" && ttlMs >= 1 && ttlMs <= most) return `${Math.floor(ttlMs)}ms`;
  throw new TypeError(`ttlMs: expected a number from 1 to ${most}, got ${described(ttlMs)}`);
}

/** Returns the text that the gateway reads, in whole ms. @throws TypeError for a wait that no gateway grants */
export function maxWaitOf(maxWaitMs: unknown): string {
  if (typeof maxWaitMs === "number" && maxWaitMs >= 1 && maxWaitMs <= 60_000) return `${Math.floor(maxWaitMs)}ms`;
  throw new TypeError(`maxWaitMs: expected a number from 1 to 60000, got ${described(maxWaitMs)}`);
}
