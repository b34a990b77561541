// What the control plane and this gateway know of each other, for all workers to read.

import { stateDict } from "../runtime/shared-memory.ts";

const gatewaysKey = "fleet-gateways";
const moreGatewaysKey = "fleet-more-gateways";
const connectedKey = "push-connected";
/** Renewed by the owner's every turn. */
const connectedSeconds = 2;

/**
 * A gateway that the control plane has lost from sight may well go on by its share: one that is cut off or reconnects, or
 * all of them when the control plane is started anew. So long it is counted still.
 */
const countedOnSeconds = 30;

/** How many gateways are live, this one among them: the most that the control plane has told of late. */
export function liveGateways(): number {
  const gateways = stateDict.get<number>(gatewaysKey)[0] ?? 1;
  return math.max(gateways, stateDict.get<number>(moreGatewaysKey)[0] ?? 1);
}

/** More are believed at once. */
export function setLiveGateways(gateways: number): void {
  const before = liveGateways();
  stateDict.set(gatewaysKey, gateways);
  if (gateways < before) stateDict.set(moreGatewaysKey, before, countedOnSeconds);
}

export function isConnected(): boolean {
  return stateDict.get(connectedKey)[0] === true;
}

export function setConnected(connected: boolean): void {
  if (connected) stateDict.set(connectedKey, true, connectedSeconds);
  else stateDict.delete(connectedKey);
}
