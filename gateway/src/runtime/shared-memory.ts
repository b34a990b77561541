// The shared dicts that nginx.conf declares. Counters have one for themselves, and what finds no room there another, so that a
// flood of keys takes no memory from a lock or the snapshot.

/** As nginx.conf has it. @param size of nginx's, such as 16m */
function sharedDict(name: string, size: string): SharedDict {
  const dict = ngx.shared[name];
  if (dict === undefined) {
    error(
      `sluice: nginx.conf declares no shared dict ${name}: add "lua_shared_dict ${name} ${size};" to its http block`,
      0,
    );
  }
  return dict;
}

export const countersDict = sharedDict("sluice_counters", "64m");
export const overflowDict = sharedDict("sluice_overflow", "16m");
export const locksDict = sharedDict("sluice_locks", "1m");
export const stateDict = sharedDict("sluice_state", "32m");
export const metricsDict = sharedDict("sluice_metrics", "24m");

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
