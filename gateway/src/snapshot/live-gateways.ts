// What the control plane and this gateway know of each other, shared by all workers. The number of gateways is also kept on disk:
// a gateway that starts while the control plane is down would otherwise take the whole quota as its share.

import { getAged, setAged } from "../runtime/aged-entries.ts";
import { replaceFile } from "../runtime/files.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { readOwnFile } from "../runtime/system-calls.ts";

export const liveGatewaysFile = "live-gateways";

const gatewaysKey = "fleet-gateways";
const moreGatewaysKey = "fleet-more-gateways";
const connectedKey = "push-connected";
/** Renewed in every turn of the owner. */
const connectedSeconds = 2;

/**
 * A gateway that the control plane no longer sees may still use its share: it may be cut off or reconnecting, or the control
 * plane may have restarted and lost all of them. So it is counted for this much longer.
 */
const countedOnSeconds = 30;

const numberPattern = "^(%d+)\n$";
/** A file with more bytes is not one that Sluice wrote. */
const mostFileBytes = 100;
/** Larger numbers are ignored, whether they come from the control plane or from disk. */
const mostGateways = 1_000_000;

/** The number of live gateways including this one: the largest number that the control plane has reported lately. */
export function liveGateways(): number {
  const gateways = stateDict.get<number>(gatewaysKey)[0] ?? 1;
  return math.max(gateways, getAged<number>(stateDict, moreGatewaysKey, countedOnSeconds) ?? 1);
}

/** A larger number takes effect at once. */
function setLiveGateways(gateways: number): void {
  const before = liveGateways();
  stateDict.safe_set(gatewaysKey, gateways);
  if (gateways < before) setAged(stateDict, moreGatewaysKey, before, countedOnSeconds);
}

export function isFleetSize(reported: unknown): reported is number {
  return typeof reported === "number" && reported >= 1 && reported <= mostGateways && reported % 1 === 0;
}

/** Like `setLiveGateways`, and also writes the number to disk; a failure is logged. @param gateways a whole number from 1 on */
export function keepLiveGateways(directory: string, gateways: number): void {
  setLiveGateways(gateways);
  let text: string | undefined = string.format("%d\n", gateways);
  const failure = replaceFile(
    directory + liveGatewaysFile,
    () => {
      const piece = text;
      text = undefined;
      return piece;
    },
    () => true,
  );
  if (failure !== undefined) {
    ngx.log(ngx.ERR, "sluice: cannot write the number of live gateways to ", directory, ": ", failure);
  }
}

/** Called at the start: restores the number last reported before nginx stopped. After a reload, shared memory still has it. */
export function recallLiveGateways(directory: string): void {
  if (stateDict.get<number>(gatewaysKey)[0] !== undefined) return;
  const [text, failure] = readOwnFile(directory + liveGatewaysFile, mostFileBytes);
  if (text === undefined && failure === undefined) return;
  const [digits] = string.match(text ?? "", numberPattern);
  const gateways = tonumber(digits ?? "");
  if (isFleetSize(gateways)) setLiveGateways(gateways);
  else
    ngx.log(
      ngx.ERR,
      "sluice: ",
      directory,
      liveGatewaysFile,
      " is damaged: this gateway counts as the only one until the control plane reports how many there are",
    );
}

export function isConnected(): boolean {
  return getAged(stateDict, connectedKey, connectedSeconds) === true;
}

export function setConnected(connected: boolean): void {
  if (connected) setAged(stateDict, connectedKey, true, connectedSeconds);
  else stateDict.delete(connectedKey);
}
