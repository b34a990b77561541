// Checks whether the user in SLUICE_REDIS_URL has all rights that the control plane needs. Redis is asked for all rights in
// advance, so that a missing one does not show only when an operator resets a counter.

import { describeValue } from "@sluice/limiter/document/validate.ts";
import type { Redis } from "ioredis";
import type { RedisDeployment } from "./redis-url.ts";

/** A key under the counters' prefix that no counter uses: writing it changes nothing. */
export const probeKey = "sluice:probe";

/**
 * The commands of docs/cluster.md, each with the right number of arguments. EVAL and SELECT are not listed: if the user may
 * not run them, these commands themselves report it.
 */
const commands: readonly (readonly string[])[] = [
  ["script", "load", ""],
  ["evalsha", "", "0"],
  ["time"],
  ["get", probeKey],
  ["getrange", probeKey, "0", "0"],
  ["set", probeKey, ""],
  ["setrange", probeKey, "0", ""],
  ["pexpire", probeKey, "1"],
  ["del", probeKey],
];
const commandsOf: Readonly<Record<RedisDeployment["kind"], readonly (readonly string[])[]>> = {
  single: commands,
  sentinel: [...commands, ["role"]],
  cluster: [...commands, ["cluster", "slots"], ["asking"]],
};

/** Redis 6 has no `acl_check_cmd`: there a missing right shows only when a command needs it. */
const script = `
local missing = {}
if redis.acl_check_cmd then
  for _, command in ipairs(cjson.decode(ARGV[1])) do
    if not redis.acl_check_cmd(unpack(command)) then
      missing[#missing + 1] = command[1]
    end
  end
end
return missing
`;

/**
 * @throws Error with the commands that the user may not run, worded as Redis does, or for a malformed reply; errors of
 * ioredis
 */
export async function checkRights(server: Redis, kind: RedisDeployment["kind"]): Promise<void> {
  const needed = commandsOf[kind];
  const missing = await server.eval(script, 0, JSON.stringify(needed));
  if (!Array.isArray(missing)) throw new Error(`expected a list from a script, got ${describeValue(missing)}`);
  const refused = needed.filter(([name]) => missing.includes(name));
  if (refused.length === 0) return;
  const names = refused.map(nameOf).join(", ");
  // The user may be allowed to run the commands, but not on this key.
  const on = refused.some((command) => command.includes(probeKey)) ? " on keys of sluice:*" : "";
  throw new Error(`NOPERM this user has no permissions to run ${names}${on}`);
}

/** Returns the command's name, with its subcommand in the notation of ACL rules. */
function nameOf([name, subcommand]: readonly string[]): string {
  return name === "script" || name === "cluster" ? `'${name}|${subcommand}'` : `'${name}'`;
}
