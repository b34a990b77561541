// Calls of scripts as they go over the wire, in few pieces: lua-resty-redis makes five of each argument, ngx_lua walks them
// twice, and that is a quarter of what a decision in Redis costs nginx. In one piece each would be a long text of its own, and
// LuaJIT, which looks at some of its bytes, would take texts that differ by a few digits in the middle for the same at first.

export interface Script {
  readonly sha1: string;
  readonly source: string;
}

const mostKnown = 256;
/** What stands before a text of so many bytes, behind what comes before it. */
const knownHeads: string[] = [];
for (let bytes = 0; bytes < mostKnown; bytes++) knownHeads[bytes] = `\r\n$${bytes}\r\n`;

/** A command of a pipeline. */
export function callOf({ sha1 }: Script, keyCount: number, keysAndArgs: readonly string[]): string[] {
  return requestOf("evalsha", sha1, keyCount, keysAndArgs);
}

/** The same with the script itself, for a Redis that does not know it. */
export function callWithSource({ source }: Script, keyCount: number, keysAndArgs: readonly string[]): string[] {
  return requestOf("eval", source, keyCount, keysAndArgs);
}

function requestOf(command: string, script: string, keyCount: number, keysAndArgs: readonly string[]): string[] {
  const keys = string.format("%d", keyCount);
  const pieces = [
    string.format("*%d", keysAndArgs.length + 3),
    headOf(command),
    command,
    headOf(script),
    script,
    headOf(keys),
    keys,
  ];
  for (const text of keysAndArgs) {
    pieces.push(headOf(text));
    pieces.push(text);
  }
  pieces.push("\r\n");
  return pieces;
}

function headOf(text: string): string {
  return knownHeads[text.length] ?? string.format("\r\n$%d\r\n", text.length);
}

/** The same for one. @returns the reply; false and the message of an error; undefined and what failed */
export function exchangeOne(
  redis: RedisConnection,
  request: string[],
): LuaMultiReturn<[reply: unknown, failure: string | undefined]> {
  const [replies, failure] = exchange(redis, [request]);
  if (replies === undefined) return $multi(undefined, failure);
  const reply = replies[0];
  if (type(reply) !== "table") return $multi(reply, undefined);
  const [refused, message] = reply as readonly [unknown, string?];
  if (refused === false) return $multi(false, message);
  return $multi(reply, undefined);
}

/**
 * Sends commands together and waits for their replies.
 *
 * @param redis a connection on which nothing is outstanding
 * @param requests each as `callOf` makes it: lua-resty-redis may empty them
 * @returns a reply to each, [false, message] for an error; or undefined and what failed
 */
export function exchange(
  redis: RedisConnection,
  requests: readonly string[][],
): LuaMultiReturn<[replies: readonly unknown[] | undefined, failure: string | undefined]> {
  redis.init_pipeline(requests.length);
  const pending = rawget(redis, "_reqs");
  if (pending === undefined) return $multi(undefined, "this lua-resty-redis hides its pipeline");
  for (const request of requests) pending.push(request);
  return redis.commit_pipeline();
}
