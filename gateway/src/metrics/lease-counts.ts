// What becomes of the units of leases on this node.

import { addNow, addPending, flushedCount } from "./counts.ts";

/** Each unit that was granted is spent, returned or expired in the end. */
export type LeaseUnits = "granted" | "spent" | "returned" | "expired";

/** exchanges: messages to Redis, each sending counted. lost: those that had no answer. */
export type LeaseEvent = "exchanges" | "grants" | "lost";

export const leaseUnitStates: readonly LeaseUnits[] = ["granted", "spent", "returned", "expired"];

const unitsKey = "lease-units:";
const eventKey = "lease-event:";
const admittedKey = "lease-admitted";

export function countLeaseUnits(state: LeaseUnits, units: number): void {
  if (units <= 0) return;
  // Before any of them can be admitted: excess is what is admitted beyond.
  if (state === "granted") addNow(unitsKey + state, units);
  else addPending(unitsKey + state, units);
}

/** At each admission from a lease. */
export function countLeaseAdmission(units: number): void {
  addPending(admittedKey, units);
}

/** Of one that was given back: at once, so that nothing looks like an excess meanwhile. */
export function countLeaseRefund(units: number): void {
  addNow(admittedKey, -units);
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

/** Admitted from leases, request by request. */
export function leaseUnitsAdmitted(): number {
  return flushedCount(admittedKey);
}

/** Admitted beyond what Redis has granted and did not have back: 0, or the protocol is broken. */
export function leaseUnitsExcess(): number {
  const admitted = leaseUnitsAdmitted();
  return math.max(0, admitted + leaseUnits("returned") + leaseUnits("expired") - leaseUnits("granted"));
}

/** Granted, and nothing is known of what became of them yet: at most what this node may still spend. */
export function leaseUnitsOut(): number {
  return math.max(0, leaseUnits("granted") - leaseUnits("spent") - leaseUnits("returned") - leaseUnits("expired"));
}
