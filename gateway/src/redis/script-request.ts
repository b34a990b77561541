// Script calls as they are sent, in few pieces: lua-resty-redis makes five pieces of each argument, and ngx_lua walks them twice,
// which is a quarter of what a decision in Redis costs nginx. If each call were one piece, it would be a long string of its own:
// LuaJIT's hash looks at some of its bytes only, and would collide for strings that differ by a few digits in the middle.

export interface Script {
  readonly sha1: string;
  readonly source: string;
}

const mostKnown = 256;
/** The length headers of strings by their length, each with the line end of the piece before. */
const knownHeads: string[] = [];
for (let bytes = 0; bytes < mostKnown; bytes++) knownHeads[bytes] = `\r\n$${bytes}\r\n`;

/** Builds a command of a pipeline. */
export function callOf({ sha1 }: Script, keyCount: number, keysAndArgs: readonly string[]): string[] {
  return requestOf("evalsha", sha1, keyCount, keysAndArgs);
}

/** The same with the script's source, for a Redis that does not know the script. */
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

/**
 * Sends one command and waits for its reply.
 *
 * @returns the reply; false and the message of an error reply; undefined and the error message
 */
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
 * @param redis a connection on which no reply is outstanding
 * @param requests each as `callOf` makes it: lua-resty-redis may empty them
 * @returns a reply to each, [false, message] for an error reply; or undefined and the error message
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
