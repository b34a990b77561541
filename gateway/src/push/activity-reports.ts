// Sends what the workers report of their traffic to a control plane that takes it. Earlier ones would close the socket.

import { takeActivity } from "../metrics/activity.ts";
import { nowMs } from "../runtime/clock.ts";

/** With five turns a second, a gateway sends 80 KB a second at most, or one report of a worker in each. */
const mostBytesInTurn = 16_384;

/** Only the owner of the push socket knows. */
let isTaken = false;

/** Called when a connection begins, and when its control plane says what it takes. */
export function setActivityTaken(taken: boolean): void {
  isTaken = taken;
}

/** Returns the message to send, as JSON; undefined: there is nothing to report. */
export function nextActivity(): string | undefined {
  if (!isTaken) return undefined;
  const workers = takeActivity(mostBytesInTurn);
  if (workers.length === 0) return undefined;
  return `{"type":"activity","nowMs":${string.format("%.0f", nowMs())},"workers":[${workers.join(",")}]}`;
}
