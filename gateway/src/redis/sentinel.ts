// Which server is the primary, according to the sentinels. A worker keeps this information until the primary fails it.

import { type Address, type Deployment, reportedAddress } from "../../../limiter/src/protocol/redis-url.ts";
import { connectTo, forgetOthers, keep, type RedisServer, serverAt } from "./connection.ts";
import { discover, newDiscovery, queryFirstAnswering } from "./discovery.ts";

export type SentinelDeployment = Deployment & { kind: "sentinel" };

const discovery = newDiscovery();
let primary: RedisServer | undefined;
/** The last primary that failed. */
let doubted: RedisServer | undefined;
/** The sentinel that is queried first. */
let first = 0;

/**
 * While the breaker of the last known primary is open, no request waits for the sentinels: they name that one until there is
 * another.
 *
 * @param waitMs the longest that the caller waits otherwise
 * @returns the primary, of which is only known that sentinels name it; or the error message
 */
export function primaryOf(
  deployment: SentinelDeployment,
  deadlineMs: number,
  waitMs: number,
): LuaMultiReturn<[RedisServer | undefined, string | undefined]> {
  if (primary === undefined) {
    const patienceMs = doubted?.breaker.open === true ? 0 : waitMs;
    discover(discovery, deadlineMs, patienceMs, () => learnPrimary(deployment, deadlineMs));
  }
  if (primary !== undefined) return $multi(primary, undefined);
  return $multi(undefined, `sentinel: ${discovery.failure ?? "the primary does not answer"}`);
}

/** This server did not behave like a primary: before the next command, the sentinels are queried, beginning with another one. */
export function doubtPrimary(server: RedisServer): void {
  if (primary !== server) return;
  doubted = server;
  primary = undefined;
  first += 1;
}

/**
 * Asks the sentinels although the primary answers: they may name another one. It is used once it can be reached. Yields.
 *
 * @returns the error message
 */
export function askForPrimary(deployment: SentinelDeployment, deadlineMs: number): string | undefined {
  const former = primary;
  if (former === undefined) return undefined;
  const [named, failure] = namedPrimary(deployment, deadlineMs);
  if (named === undefined) return failure;
  if (named !== former) {
    const [redis, connectFailure] = connectTo(named, deadlineMs);
    if (redis === undefined) return `${named.address.host}:${named.address.port}: ${connectFailure}`;
    keep(redis);
    if (primary !== former) return undefined;
    primary = named;
  }
  forgetOthers(deployment.access, [named]);
  return undefined;
}

function learnPrimary(deployment: SentinelDeployment, deadlineMs: number): string | undefined {
  const [named, failure] = namedPrimary(deployment, deadlineMs);
  if (named === undefined) return failure;
  primary = named;
  forgetOthers(deployment.access, [named]);
  return undefined;
}

function namedPrimary(
  deployment: SentinelDeployment,
  deadlineMs: number,
): LuaMultiReturn<[RedisServer | undefined, string | undefined]> {
  const { access, sentinels, sentinelAccess, name } = deployment;
  const [reported, index, failure] = queryFirstAnswering<Address>(
    sentinelAccess,
    sentinels,
    first,
    deadlineMs,
    (redis, source) => {
      const [reply, replyFailure] = redis.sentinel("get-master-addr-by-name", name);
      if (!reply) return $multi(undefined, replyFailure);
      if (type(reply) !== "table") return $multi(undefined, `knows no primary called ${name}`);
      const [host, port] = reply as [string, string];
      return $multi(reportedAddress(host, tonumber(port) as number, source), undefined);
    },
  );
  first = index;
  if (reported === undefined) return $multi(undefined, failure);
  return $multi(serverAt(access, reported), undefined);
}
