// A check that waits for Redis, and its reply.

import { oddReply } from "../../redis/script-reply.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import type { Check, Owed, Unanswered } from "../store.ts";

/** What a script replies of each: see redis-scripts/charge-batch.ts. */
export const numbersPerCounter = 6;
const bytesPerNumber = 8;

/** Where the numbers are that a script replied: a table, or packed memory. */
export type Numbers = LuaTable<number, number>;

/** Whether there is a reply for whoever asked: one that came after the asker was released is dealt with by others. */
export function hasReply({ numbers, abandoned }: PendingCheck): boolean {
  return numbers !== undefined && !abandoned;
}

/** What one request submits, until Redis has replied. */
export interface PendingCheck extends Unanswered {
  readonly checks: readonly Check[];
  /** Since the epoch. */
  submittedAtSeconds: number;
  /** Undefined until there is a reply. */
  numbers: Numbers | undefined;
  /** Where those of this check begin. */
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

/** The reply to a question that had a script call of its own. */
export function takeReply(pending: PendingCheck, reply: unknown, counters: number): void {
  pending.numbers = unpacked(reply, counters) ?? listed(reply, counters);
  if (pending.numbers === undefined) pending.failure = oddReply;
  // What a table of Lua holds begins at 1, and there with whether all allow.
  else if (typeof reply !== "string") pending.at = 2;
}

/** @returns undefined where it is no such reply: what lies behind a shorter one is not Redis' */
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
