// A check that waits for Redis, and its reply.

import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import type { Call } from "../../redis/script-call.ts";
import { areNumbers, oddReply } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import type { Check, Owed, Unanswered } from "../store.ts";

/** How many numbers a script replies for each counter: see redis-scripts/charge-batch.ts. */
export const numbersPerCounter = 6;
const bytesPerNumber = 8;

/** Holds the numbers of a script's reply: a Lua table, or packed memory. */
export type Numbers = LuaTable<number, number>;

/** What one request submits, until Redis has replied. */
export interface PendingCheck extends Unanswered {
  readonly checks: readonly Check[];
  /** Seconds since the epoch. */
  submittedAtSeconds: number;
  /** One counter, which a batch charges by one call with others of its limit. Undefined: the check has a call of its own. */
  counter: PendingCounter | undefined;
  readonly call: Call | undefined;
  /** Of its keys: see `groupOf`. */
  group: number;
  /** The longest that the request waits, in ms. */
  limitMs: number;
  /** Whether what is charged must not be lost with the request: it is refunded if the client goes away meanwhile. */
  mustKeep: boolean;
  /** Whether the queue's thread has to read the reply, because the request may stop waiting earlier than others. */
  inQueue: boolean;
  /** The node of its queue has certainly not executed it, because its slot is elsewhere, or is moving. It goes to its slot's own queue. */
  isElsewhere: boolean;
  /** Undefined until there is a reply. */
  numbers: Numbers | undefined;
  /** The place at which the numbers of this check begin. */
  at: number;
  failure: string | undefined;
}

/** A counter as a script is given it. */
export interface PendingCounter {
  key: string;
  limit: CompiledLimit;
  cost: number;
  script: Script;
}

export function newPendingCheck<Checks extends readonly Check[]>(
  checks: Checks,
  counter: PendingCounter | undefined,
  call: Call | undefined,
) {
  return {
    checks,
    submittedAtSeconds: wallSeconds(),
    counter,
    call,
    group: 0,
    limitMs: 0,
    mustKeep: false,
    inQueue: false,
    isElsewhere: false,
    numbers: undefined as Numbers | undefined,
    at: 0,
    failure: undefined as string | undefined,
    abandoned: false,
    lost: undefined as boolean | undefined,
    owed: undefined as Owed[] | undefined,
    reconciled: false,
  };
}

/** Returns whether the request has its reply. A reply that came after the request was released is dealt with by others. */
export function hasReply({ numbers, abandoned }: PendingCheck): boolean {
  return numbers !== undefined && !abandoned;
}

/** Takes the reply to a check with a script call of its own. */
export function takeReply(
  pending: PendingCheck,
  reply: unknown,
  { keyCount, counters = keyCount, numbers }: Call,
): void {
  if (numbers !== undefined) pending.numbers = plain(reply, numbers);
  else pending.numbers = unpacked(reply, counters) ?? listed(reply, counters);
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

function plain(reply: unknown, count: number): Numbers | undefined {
  const list = type(reply) === "number" ? [reply] : reply;
  return areNumbers(list, count) ? (list as unknown as Numbers) : undefined;
}

function listed(reply: unknown, counters: number): Numbers | undefined {
  if (type(reply) !== "table") return undefined;
  const count = counters * numbersPerCounter + 1;
  const list = reply as readonly number[];
  return list.length === count && type(list[count - 1]) === "number" ? (reply as Numbers) : undefined;
}
