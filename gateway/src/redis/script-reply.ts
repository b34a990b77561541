// Validates replies against the form that their script gives: a server that speaks Redis's protocol may still be a wrong one, and
// code must not read beyond the end of a short reply.

import type { RedisSettings } from "../settings.ts";
import type { Patience } from "./patience.ts";
import { callScript } from "./script-call.ts";
import type { Script } from "./script-request.ts";

export const oddReply = "Redis sent a reply that does not fit the script";

/**
 * Like `callScript`, for a script that replies with a list of numbers.
 *
 * @param count the length of the list
 * @returns the list; or undefined, the error message, and whether the script may have been executed anyway
 */
export function callForNumbers(
  settings: RedisSettings,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
  count: number,
  patience?: Patience,
): LuaMultiReturn<[readonly number[] | undefined, string | undefined, mayHaveRun: boolean]> {
  const [reply, failure, mayHaveRun] = callScript(settings, script, keyCount, keysAndArgs, patience);
  if (reply === undefined) return $multi(undefined, failure, mayHaveRun);
  if (!areNumbers(reply, count)) return $multi(undefined, oddReply, true);
  return $multi(reply, undefined, false);
}

/** The same for a script that replies with one number. */
export function callForNumber(
  settings: RedisSettings,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
): LuaMultiReturn<[number | undefined, string | undefined, mayHaveRun: boolean]> {
  const [reply, failure, mayHaveRun] = callScript(settings, script, keyCount, keysAndArgs);
  if (reply === undefined) return $multi(undefined, failure, mayHaveRun);
  if (type(reply) !== "number") return $multi(undefined, oddReply, true);
  return $multi(reply as number, undefined, false);
}

export function areNumbers(reply: unknown, count: number): reply is readonly number[] {
  if (type(reply) !== "table" || (reply as readonly unknown[]).length !== count) return false;
  for (const each of reply as readonly unknown[]) {
    if (type(each) !== "number") return false;
  }
  return true;
}
