// One worker of an nginx holds the push socket. It renews its claim in shared memory regularly; if it dies, the claim expires,
// and the first other worker to notice takes over.

import { stateDict } from "../runtime/shared-memory.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";

const ownerKey = "push-owner";
/** An owner that has not renewed its claim for this long is gone. */
const silenceSeconds = 1;

/** @returns whether this worker is the owner from now on */
export function claim(): boolean {
  // It must not push a policy out of shared memory.
  const [claimed, failure] = stateDict.safe_add(ownerKey, ngx.worker.pid(), silenceSeconds);
  if (failure === "no memory") warnSparingly("no worker can receive policies", "sluice_state is full: make it larger");
  return claimed === true;
}

/** Renews the claim of this worker. @returns false if another worker has taken over */
export function renew(): boolean {
  const [owner] = stateDict.get(ownerKey);
  if (owner === undefined) return claim();
  if (owner !== ngx.worker.pid()) return false;
  return stateDict.safe_set(ownerKey, owner, silenceSeconds)[0] === true;
}

export function resign(): void {
  if (stateDict.get(ownerKey)[0] === ngx.worker.pid()) stateDict.delete(ownerKey);
}
