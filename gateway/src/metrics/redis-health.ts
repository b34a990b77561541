// Reports whether Redis answers this nginx. It is derived from the metrics of all workers' calls; nothing else is counted for it.

import type { RedisReport } from "../../../limiter/src/protocol/push-messages.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { overloadedWorkers } from "./overload-state.ts";
import { redisCallCounts, redisFailureCount, redisFailures } from "./redis-calls.ts";

/**
 * As of the last report. Undefined before this worker's first report: there is no telling when the other workers counted what
 * they did.
 */
let answered: number | undefined;
let failed = 0;
const identityKey = "redis-identity:";
let state: RedisReport["state"] = "unused";
let sinceSeconds = ngx.now();

/**
 * Called by the owner of the push socket at each report. Redis counts as failing if any call has failed since the last report.
 */
export function redisReport(): RedisReport {
  let calls = 0;
  for (const count of redisCallCounts()) calls += count;
  let failures = 0;
  for (const kind of redisFailures) failures += redisFailureCount(kind);
  // Calls without a connection and late requests are not among `calls`; every other failed call is.
  const answers = calls - failures + redisFailureCount("connect") + redisFailureCount("late");
  if (answered === undefined) {
    if (failures === 0 && answers > 0) become("ok");
  } else if (failures > failed) become("failing");
  else if (answers > answered) become("ok");
  answered = answers;
  failed = failures;
  const identities = redisIdentities();
  const strays = identities.reduce((sum, { workers }, i) => (i === 0 ? 0 : sum + workers), 0);
  const overloaded = overloadedWorkers();
  return {
    state,
    sinceSeconds: math.floor(sinceSeconds),
    id: identities[0]?.id,
    strayWorkers: strays === 0 ? undefined : strays,
    overloadedWorkers: overloaded === 0 ? undefined : overloaded,
  };
}

/**
 * Called by each worker that has read it.
 *
 * @param id names the data that Redis has
 * @returns whether no other worker uses it yet
 */
export function noteRedisIdentity(id: string): boolean {
  const isFirst = !redisIdentities().some((one) => one.id === id);
  stateDict.set(identityKey + ngx.worker.id(), id);
  return isFirst;
}

/** A Redis that workers of this nginx use. */
interface UsedRedis {
  readonly id: string;
  workers: number;
}

/** Returns which Redis the workers of this nginx use, beginning with that of most workers: one, unless its name has just moved. */
export function redisIdentities(): UsedRedis[] {
  const used: UsedRedis[] = [];
  for (let worker = 0; worker < ngx.worker.count(); worker++) {
    const [id] = stateDict.get<string>(identityKey + worker);
    if (id === undefined) continue;
    const known = used.find((one) => one.id === id);
    if (known === undefined) used.push({ id, workers: 1 });
    else known.workers += 1;
  }
  return used.sort((a, b) => b.workers - a.workers);
}

/** Returns whether workers of this nginx use different servers, and so count apart. */
export function isDividedOverRedis(): boolean {
  return redisIdentities().length > 1;
}

function become(next: RedisReport["state"]): void {
  if (state === next) return;
  state = next;
  sinceSeconds = ngx.now();
}
