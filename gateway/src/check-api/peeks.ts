// Requests of the check API that peek. Each peek asks Redis by a call of its own, and charges share calls: without a bound, peeks take all
// connections that a worker has to Redis. So some requests peek at a time, with few calls at once, and the others wait for their turn. No app
// has all the turns.

import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";

/** With as many calls as each may have, this is half of a worker's connections to Redis. */
const mostPeeking = 16;
const mostOfApp = 8;
export const callsAtOnce = 2;
const longestWaitSeconds = 2;

interface Turn {
  readonly ofApp: Semaphore;
  /** Whether it has its turn among all apps. */
  isOn: boolean;
}

const turnField = newRequestField<Turn>(endTurn);
const ofApps: Record<string, Semaphore | undefined> = {};
let ofAll: Semaphore | undefined;

/** Waits until the current request may peek, and until its end, or `endPeeking`, it does. @returns false: it waited for too long */
export function beginPeeking(app: string): boolean {
  const ofApp = ofApps[app] ?? semaphoreLibrary.new(mostOfApp);
  ofApps[app] = ofApp;
  if (!ofApp.wait(longestWaitSeconds)[0]) return false;
  const turn: Turn = { ofApp, isOn: false };
  keepForRequest(turnField, turn);
  ofAll ??= semaphoreLibrary.new(mostPeeking);
  turn.isOn = ofAll.wait(longestWaitSeconds)[0] === true;
  if (turn.isOn) return true;
  endPeeking();
  return false;
}

export function endPeeking(): void {
  const turn = takeFromRequest(turnField);
  if (turn !== undefined) endTurn(turn);
}

function endTurn(this: void, { ofApp, isOn }: Turn): void {
  if (isOn) ofAll?.post(1);
  ofApp.post(1);
}
