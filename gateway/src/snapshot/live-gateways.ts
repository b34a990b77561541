// What the control plane and this gateway know of each other, for all workers to read. How many gateways there are is kept on
// disk too: one that starts while the control plane is down would take the whole quota for its share.

import { noPause } from "../../../limiter/src/basics/pause.ts";
import { replaceFile } from "../runtime/files.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { readOwnFile } from "../runtime/system-calls.ts";

export const liveGatewaysFile = "live-gateways";

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

const numberPattern = "^(%d+)\n$";
/** More has it only where something else lies in its place. */
const mostFileBytes = 100;
/** More are believed neither of the control plane nor of the disk. */
const mostGateways = 1_000_000;

/** How many gateways are live, this one among them: the most that the control plane has told of late. */
export function liveGateways(): number {
  const gateways = stateDict.get<number>(gatewaysKey)[0] ?? 1;
  return math.max(gateways, stateDict.get<number>(moreGatewaysKey)[0] ?? 1);
}

/** More are believed at once. */
function setLiveGateways(gateways: number): void {
  const before = liveGateways();
  stateDict.set(gatewaysKey, gateways);
  if (gateways < before) stateDict.set(moreGatewaysKey, before, countedOnSeconds);
}

export function isFleetSize(reported: unknown): reported is number {
  return typeof reported === "number" && reported >= 1 && reported <= mostGateways && reported % 1 === 0;
}

/** As `setLiveGateways`, and on disk, where a failure is logged. @param gateways a whole number from 1 on */
export function keepLiveGateways(directory: string, gateways: number): void {
  setLiveGateways(gateways);
  const failure = replaceFile(directory + liveGatewaysFile, [string.format("%d\n", gateways)], noPause);
  if (failure !== undefined) {
    ngx.log(ngx.ERR, "sluice: cannot keep the number of live gateways in ", directory, ": ", failure);
  }
}

/** For the start: what was last told before nginx stopped. After a reload, shared memory has it. */
export function recallLiveGateways(directory: string): void {
  if (stateDict.get<number>(gatewaysKey)[0] !== undefined) return;
  const [text, failure] = readOwnFile(directory + liveGatewaysFile, mostFileBytes);
  if (text === undefined && failure === undefined) return;
  const [digits] = string.match(text ?? "", numberPattern);
  const gateways = tonumber(digits ?? "");
  if (isFleetSize(gateways)) setLiveGateways(gateways);
  else ngx.log(ngx.ERR, "sluice: ", directory, liveGatewaysFile, " is damaged: this gateway counts as the only one");
}

export function isConnected(): boolean {
  return stateDict.get(connectedKey)[0] === true;
}

export function setConnected(connected: boolean): void {
  if (connected) stateDict.set(connectedKey, true, connectedSeconds);
  else stateDict.delete(connectedKey);
}
