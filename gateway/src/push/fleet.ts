// What the control plane and this gateway know of each other, for all workers to read.

import { stateDict } from "../runtime/shared-memory.ts";

const gatewaysKey = "fleet-gateways";
const connectedKey = "push-connected";
/** Renewed by the owner's every turn. */
const connectedSeconds = 2;

/** How many gateways are live, this one among them: the last count that the control plane told. */
export function liveGateways(): number {
  return stateDict.get<number>(gatewaysKey)[0] ?? 1;
}

export function setLiveGateways(gateways: number): void {
  stateDict.set(gatewaysKey, gateways);
}

export function isConnected(): boolean {
  return stateDict.get(connectedKey)[0] === true;
}

export function setConnected(connected: boolean): void {
  if (connected) stateDict.set(connectedKey, true, connectedSeconds);
  else stateDict.delete(connectedKey);
}
