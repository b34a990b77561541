// Whether the user in SLUICE_REDIS_URL may do what the control plane needs: asked of Redis beforehand, all rights at once,
// rather than found out one by one when an operator resets a counter.

import { describeValue } from "@sluice/limiter/document/validate.ts";
import type { Redis } from "ioredis";
import type { RedisDeployment } from "./redis-url.ts";

/** A counter's key that nobody has: to write it changes nothing. */
export const probeKey = "sluice:probe";

/** As docs/cluster.md has them, with arguments of the right number. Who may not run EVAL or SELECT is told by these. */
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

/** Redis 6 cannot tell: there a right is missed by the command that needs it. */
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

/** @throws Error with the commands that the user may not run, as Redis would say it, or for an odd reply; what ioredis throws */
export async function checkRights(server: Redis, kind: RedisDeployment["kind"]): Promise<void> {
  const needed = commandsOf[kind];
  const missing = await server.eval(script, 0, JSON.stringify(needed));
  if (!Array.isArray(missing)) throw new Error(`expected a list from a script, got ${describeValue(missing)}`);
  const refused = needed.filter(([name]) => missing.includes(name));
  if (refused.length === 0) return;
  const names = refused.map(nameOf).join(", ");
  // It may be the key that is refused.
  const on = refused.some((command) => command.includes(probeKey)) ? " on keys of sluice:*" : "";
  throw new Error(`NOPERM this user has no permissions to run ${names}${on}`);
}

/** Of commands with a subcommand, as ACL rules have it. */
function nameOf([name, subcommand]: readonly string[]): string {
  return name === "script" || name === "cluster" ? `'${name}|${subcommand}'` : `'${name}'`;
}
