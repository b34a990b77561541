// What becomes of the units of leases on this node.

import { addPending, flushedCount } from "./counts.ts";

/** Each unit that was granted is spent, returned or expired in the end. */
export type LeaseUnits = "granted" | "spent" | "returned" | "expired";

/** exchanges: messages to Redis, each sending counted. lost: those that had no answer. */
export type LeaseEvent = "exchanges" | "grants" | "lost";

export const leaseUnitStates: readonly LeaseUnits[] = ["granted", "spent", "returned", "expired"];

const unitsKey = "lease-units:";
const eventKey = "lease-event:";

export function countLeaseUnits(state: LeaseUnits, units: number): void {
  if (units > 0) addPending(unitsKey + state, units);
}

export function countLeaseEvent(event: LeaseEvent): void {
  addPending(eventKey + event, 1);
}

export function leaseUnits(state: LeaseUnits): number {
  return flushedCount(unitsKey + state);
}

export function leaseEvents(event: LeaseEvent): number {
  return flushedCount(eventKey + event);
}

/** Granted, and nothing is known of what became of them yet: at most what this node may still spend. */
export function leaseUnitsOut(): number {
  return math.max(0, leaseUnits("granted") - leaseUnits("spent") - leaseUnits("returned") - leaseUnits("expired"));
}
