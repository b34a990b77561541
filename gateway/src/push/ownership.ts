// One worker of an nginx holds the push socket. It says so in shared memory again and again; when it dies it falls
// silent, and the first other worker to notice takes over.

import { stateDict } from "../runtime/shared-memory.ts";

const ownerKey = "push-owner";
/** An owner that says nothing for so long is gone. */
const silenceSeconds = 1;

/** @returns whether this worker is the owner from now on */
export function claim(): boolean {
  return stateDict.add(ownerKey, ngx.worker.pid(), silenceSeconds)[0] === true;
}

/** Says that the owner lives. @returns false when another has taken over */
export function renew(): boolean {
  const [owner] = stateDict.get(ownerKey);
  if (owner === undefined) return claim();
  if (owner !== ngx.worker.pid()) return false;
  stateDict.set(ownerKey, owner, silenceSeconds);
  return true;
}

export function resign(): void {
  if (stateDict.get(ownerKey)[0] === ngx.worker.pid()) stateDict.delete(ownerKey);
}
