// The shared dicts that nginx.conf declares. Counters have one for themselves, so that a flood of keys evicts counters
// and never a lock or the snapshot.

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
export const locksDict = sharedDict("sluice_locks");
export const stateDict = sharedDict("sluice_state");
export const metricsDict = sharedDict("sluice_metrics");
