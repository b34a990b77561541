// Counts of the units of leases on this node.

import { addNow, addPending, flushedCount } from "./counts.ts";

/** Each granted unit is in the end spent, returned or expired. */
export type LeaseUnits = "granted" | "spent" | "returned" | "expired";

/** exchanges: messages to Redis, where each attempt counts. lost: messages without a reply. */
export type LeaseEvent = "exchanges" | "grants" | "lost";

export const leaseUnitStates: readonly LeaseUnits[] = ["granted", "spent", "returned", "expired"];

const unitsKey = "lease-units:";
const eventKey = "lease-event:";
const admittedKey = "lease-admitted";

export function countLeaseUnits(state: LeaseUnits, units: number): void {
  if (units <= 0) return;
  // Counted before any of these units can be admitted: units admitted beyond the granted ones show as excess.
  if (state === "granted") addNow(unitsKey + state, units);
  else addPending(unitsKey + state, units);
}

/** Called at each admission from a lease. */
export function countLeaseAdmission(units: number): void {
  addPending(admittedKey, units);
}

/** Takes back the count of a refunded admission, at once, so that it does not look like an excess meanwhile. */
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

/** Units admitted from leases, counted at each request. */
export function leaseUnitsAdmitted(): number {
  return flushedCount(admittedKey);
}

/** Units admitted beyond those that Redis granted and did not get back. It is 0 unless the protocol is broken. */
export function leaseUnitsExcess(): number {
  const admitted = leaseUnitsAdmitted();
  return math.max(0, admitted + leaseUnits("returned") + leaseUnits("expired") - leaseUnits("granted"));
}

/** Granted units whose use is not known yet: the most that this node may still spend. */
export function leaseUnitsOut(): number {
  return math.max(0, leaseUnits("granted") - leaseUnits("spent") - leaseUnits("returned") - leaseUnits("expired"));
}
