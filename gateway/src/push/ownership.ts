// One worker of an nginx holds the push socket. It renews its claim in shared memory regularly; if it dies, the claim ends, and the first
// other worker to notice takes over. The claim goes by a clock that nobody sets: entries of shared memory expire by the machine's time, which may jump.

import { stateDict } from "../runtime/shared-memory.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";

const ownerKey = "push-owner";
/** Followed by a claim that has ended: only one worker takes over from it. */
const successorKey = "push-successor:";
/** Until then, every worker has seen the successor's claim. */
const successionSeconds = 60;
/** An owner that has not renewed its claim for this long is gone. */
const silenceSeconds = 1;

/** @returns whether this worker is the owner from now on */
export function claim(): boolean {
  const [former] = stateDict.get<string>(ownerKey);
  if (former !== undefined) {
    if (stopwatchSeconds() - timeOf(former) < silenceSeconds) return false;
    return stateDict.safe_add(successorKey + former, true, successionSeconds)[0] === true && keep();
  }
  // It must not push a policy out of shared memory.
  const [claimed, failure] = stateDict.safe_add(ownerKey, newClaim());
  if (failure === "no memory") warnSparingly("no worker can receive policies", "sluice_state is full: make it larger");
  return claimed === true;
}

/** Renews the claim of this worker. @returns false if another worker has taken over */
export function renew(): boolean {
  const [owner] = stateDict.get<string>(ownerKey);
  if (owner === undefined) return claim();
  return isOwn(owner) && keep();
}

export function resign(): void {
  const [owner] = stateDict.get<string>(ownerKey);
  if (owner !== undefined && isOwn(owner)) stateDict.delete(ownerKey);
}

function keep(): boolean {
  return stateDict.safe_set(ownerKey, newClaim())[0] === true;
}

/** The worker, and when it made the claim. */
function newClaim(): string {
  return string.format("%d %.6f", ngx.worker.pid(), stopwatchSeconds());
}

function isOwn(owner: string): boolean {
  return string.match(owner, "^%d+")[0] === `${ngx.worker.pid()}`;
}

function timeOf(owner: string): number {
  return tonumber(string.match(owner, " (.*)")[0]) as number;
}
