// How many requests of the check API ask Redis on this worker. While Redis is slow they pile up, and each holds memory; beyond a
// bound a request is turned away at once with 503, so that its caller decides by itself and comes back later. A request that this
// node decides alone waits for nothing, and is not counted. The apps of the callers share the places.

import { waitingCount } from "../charging/waiting-requests.ts";
import { keepForRequest, newRequestField } from "../request/request-state.ts";
import { hasPlace, leavePlace, newPlaces, takePlace } from "../runtime/app-places.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { Caller } from "./caller-tokens.ts";
import type { CheckError } from "./check-errors.ts";
import type { RequestedCheck } from "./decide.ts";

const field = newRequestField<string>((app) => leavePlace(underWay, app));
const underWay = newPlaces();
let most = math.huge;

/** For each worker's start. */
export function boundChecks(mostChecks: number): void {
  most = mostChecks;
}

/** Counts the current request, if Redis is asked for one of these. @returns why it is turned away */
export function beginChecks(caller: Caller, requested: readonly RequestedCheck[]): CheckError | undefined {
  for (const { policy } of requested) {
    if (policy.policy.store !== "node") return begin(caller);
  }
  return undefined;
}

/**
 * Counts the current request, which asks Redis, until its end. Those that wait in line are bounded on their own (SLUICE_MAX_WAITING).
 *
 * @returns why it is turned away
 */
export function begin({ app }: Caller): CheckError | undefined {
  if (!hasPlace(underWay, app, most + waitingCount())) {
    warnSparingly("requests of the check API are turned away", `${most} wait for Redis on this worker already`);
    const detail =
      "Too many requests wait for Redis on this worker of the gateway. Nothing was charged. Try again later.";
    return { code: "overloaded", detail };
  }
  takePlace(underWay, app);
  keepForRequest(field, app);
  return undefined;
}
