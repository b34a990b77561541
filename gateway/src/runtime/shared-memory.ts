// The shared dicts that nginx.conf declares. Counters have one for themselves, and what finds no room there another, so that a
// flood of keys takes no memory from a lock or the snapshot.

function sharedDict(name: string): SharedDict {
  const dict = ngx.shared[name];
  if (dict === undefined) {
    error(
      `sluice: nginx.conf declares no shared dict ${name}: add "lua_shared_dict ${name} 16m;" to its http block`,
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

/**
 * Adds to a number, and makes it where it is not there, without evicting anything: `incr` by itself would.
 *
 * @param lifeSeconds of a number that is made
 * @returns what it is then; undefined: there was no memory to make it
 */
export function addSafely(dict: SharedDict, key: string, amount: number, lifeSeconds: number): number | undefined {
  const [sum] = dict.incr(key, amount);
  if (sum !== undefined) return sum;
  const [made, failure] = dict.safe_add(key, amount, lifeSeconds);
  if (made) return amount;
  // Another worker has made it meanwhile.
  return failure === "exists" ? dict.incr(key, amount)[0] : undefined;
}
