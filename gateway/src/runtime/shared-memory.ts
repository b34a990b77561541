// The shared dicts that nginx.conf declares. Counters have a dict of their own, and the cells for keys that find no room there
// have another one. So a flood of keys takes no memory from locks or the snapshot.

import { type DictName, dictSizes } from "./dict-sizes.ts";

/** Returns the dict that nginx.conf declares. */
function sharedDict(name: DictName): SharedDict {
  const dict = ngx.shared[name];
  if (dict === undefined) {
    error(
      `sluice: nginx.conf declares no shared dict ${name}: add "lua_shared_dict ${name} ${dictSizes[name]};" to its http block`,
      0,
    );
  }
  return dict;
}

export const countersDict = sharedDict("sluice_counters");
export const overflowDict = sharedDict("sluice_overflow");
export const locksDict = sharedDict("sluice_locks");
export const stateDict = sharedDict("sluice_state");
export const metricsDict = sharedDict("sluice_metrics");

/** For consumers. An nginx whose policies know none needs no such dict. */
export const consumersDict = ngx.shared["sluice_consumers"];

/** A hundred years: a shared dict keeps its milliseconds in a long. */
const longestLifetimeSeconds = 3_155_760_000;

/**
 * Returns a lifetime for a shared dict, so that nothing ends early. nginx drops the part of a millisecond, and for it 514.286 s are
 * 514285.99999999994 ms. A lifetime of 0 would mean for ever.
 */
export function lifeSecondsOf(lifeUs: number): number {
  return math.min((math.ceil(lifeUs / 1000) + 0.5) / 1000, longestLifetimeSeconds);
}

/**
 * Adds to a number and creates it if needed, without evicting anything: `incr` with an initial value would evict.
 *
 * @param lifeSeconds lifetime of a number that is created
 * @returns the new value; undefined: there was no memory to create it
 */
export function addSafely(dict: SharedDict, key: string, amount: number, lifeSeconds: number): number | undefined {
  const [sum] = dict.incr(key, amount);
  if (sum !== undefined) return sum;
  const [made, failure] = dict.safe_add(key, amount, lifeSeconds);
  if (made) return amount;
  // Another worker has created it meanwhile.
  return failure === "exists" ? dict.incr(key, amount)[0] : undefined;
}
