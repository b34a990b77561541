// A check that waits for Redis, and its reply.

import { oddReply } from "../../redis/script-reply.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import type { Check, Owed, Unanswered } from "../store.ts";

/** How many numbers a script replies for each counter: see redis-scripts/charge-batch.ts. */
export const numbersPerCounter = 6;
const bytesPerNumber = 8;

/** Holds the numbers of a script's reply: a Lua table, or packed memory. */
export type Numbers = LuaTable<number, number>;

/**
 * Returns whether there is a reply for the waiting request. A reply that came after the request was released is handled by
 * `reconcile`.
 */
export function hasReply({ numbers, abandoned }: PendingCheck): boolean {
  return numbers !== undefined && !abandoned;
}

/** The checks that one request submits, until Redis has replied. */
export interface PendingCheck extends Unanswered {
  readonly checks: readonly Check[];
  /** Seconds since the epoch. */
  submittedAtSeconds: number;
  /** Undefined until there is a reply. */
  numbers: Numbers | undefined;
  /** Where the numbers of this check begin. */
  at: number;
  failure: string | undefined;
}

export function newPendingCheck<Checks extends readonly Check[]>(checks: Checks, submittedAtSeconds: number) {
  return {
    checks,
    submittedAtSeconds,
    numbers: undefined as Numbers | undefined,
    at: 0,
    failure: undefined as string | undefined,
    abandoned: false,
    lost: undefined as boolean | undefined,
    owed: undefined as Owed[] | undefined,
    reconciled: false,
  };
}

/** Takes the reply to a check with a script call of its own. */
export function takeReply(pending: PendingCheck, reply: unknown, counters: number): void {
  pending.numbers = unpacked(reply, counters) ?? listed(reply, counters);
  if (pending.numbers === undefined) pending.failure = oddReply;
  // A Lua table begins at index 1, and its first number is whether all counters allow.
  else if (typeof reply !== "string") pending.at = 2;
}

/** @returns undefined if it is not such a reply: memory behind a shorter one does not belong to it */
export function unpacked(reply: unknown, counters: number): Numbers | undefined {
  if (typeof reply !== "string" || reply.length !== counters * numbersPerCounter * bytesPerNumber) return undefined;
  const numbers = ffi.new("double[?]", counters * numbersPerCounter);
  ffi.copy(numbers, reply, counters * numbersPerCounter * bytesPerNumber);
  return numbers;
}

function listed(reply: unknown, counters: number): Numbers | undefined {
  if (type(reply) !== "table") return undefined;
  const count = counters * numbersPerCounter + 1;
  const list = reply as readonly number[];
  return list.length === count && type(list[count - 1]) === "number" ? (reply as Numbers) : undefined;
}
