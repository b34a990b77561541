// Finds connected gateways that do not have the stored state. Everything still runs, but an operator must look after them.
// /readyz, /metrics and GET /gateways report them.

import type { Position } from "../storage/epoch.ts";
import type { Gateway } from "./fleet.ts";

/**
 * snapshot-refused: the gateway refused the newest snapshot that it was sent, or could not take it, and continues with an
 * older one.
 * snapshot-late: the gateway has not reported on a snapshot that it was sent, for longer than that takes.
 * revision-unknown: the gateway holds a later revision of this history than the database does, and refuses new snapshots.
 */
export const alarmNames = ["snapshot-refused", "snapshot-late", "revision-unknown"] as const;
export type AlarmName = (typeof alarmNames)[number];

export interface Alarm {
  readonly alarm: AlarmName;
  /** How many connected gateways have the alarm. */
  readonly gateways: number;
}

const lateAfterMs = 30_000;

export function alarmOf(gateway: Gateway, newest: Position, nowMs: number): AlarmName | undefined {
  if (gateway.disconnectedAtMs !== undefined) return undefined;
  if (gateway.epoch === newest.epoch && gateway.revision > newest.revision) return "revision-unknown";
  if (gateway.refused !== undefined) return "snapshot-refused";
  return gateway.owedSinceMs !== undefined && nowMs - gateway.owedSinceMs > lateAfterMs ? "snapshot-late" : undefined;
}

/** Returns the alarms that at least one gateway has. */
export function alarmsOf(gateways: readonly Gateway[], newest: Position, nowMs: number): Alarm[] {
  const found = gateways.map((gateway) => alarmOf(gateway, newest, nowMs));
  return alarmNames
    .map((alarm) => ({ alarm, gateways: found.filter((one) => one === alarm).length }))
    .filter(({ gateways: count }) => count > 0);
}
