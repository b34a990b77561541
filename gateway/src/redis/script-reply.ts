// Replies that are held against what their script gives: a server that speaks Redis' protocol may still be none of ours, and
// what lies behind a short reply is nobody's.

import type { RedisSettings } from "../settings.ts";
import { callScript, type Script } from "./script-call.ts";

export const oddReply = "a reply that none of our scripts gives";

/**
 * As `callScript`, for a script that replies a list of numbers.
 *
 * @param count how many
 * @returns them; or undefined and what failed
 */
export function callForNumbers(
  settings: RedisSettings,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
  count: number,
  deadlineMs?: number,
): LuaMultiReturn<[readonly number[] | undefined, string | undefined]> {
  const [reply, failure] = callScript(settings, script, keyCount, keysAndArgs, deadlineMs);
  if (reply === undefined) return $multi(undefined, failure);
  if (!areNumbers(reply, count)) return $multi(undefined, oddReply);
  return $multi(reply, undefined);
}

/** The same for a script that replies one number. */
export function callForNumber(
  settings: RedisSettings,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
): LuaMultiReturn<[number | undefined, string | undefined]> {
  const [reply, failure] = callScript(settings, script, keyCount, keysAndArgs);
  if (reply === undefined) return $multi(undefined, failure);
  if (type(reply) !== "number") return $multi(undefined, oddReply);
  return $multi(reply as number, undefined);
}

export function areNumbers(reply: unknown, count: number): reply is readonly number[] {
  if (type(reply) !== "table" || (reply as readonly unknown[]).length !== count) return false;
  for (const each of reply as readonly unknown[]) {
    if (type(each) !== "number") return false;
  }
  return true;
}
