// Finds gateways that do not have what is stored: an operator must look after them, though everything runs. /readyz,
// /metrics and GET /gateways all tell of them.

import type { Position } from "../storage/epoch.ts";
import type { Gateway } from "./fleet.ts";

/**
 * snapshot-refused: it would not, or could not, take the newest snapshot that it was sent, and goes on by an older one.
 * snapshot-late: it has told nothing of what it was sent for longer than it takes.
 * revision-unknown: it holds a later revision of this history than the database does, and refuses what comes.
 */
export const alarmNames = ["snapshot-refused", "snapshot-late", "revision-unknown"] as const;
export type AlarmName = (typeof alarmNames)[number];

export interface Alarm {
  readonly alarm: AlarmName;
  /** How many gateways. */
  readonly gateways: number;
}

const lateAfterMs = 30_000;

export function alarmOf(gateway: Gateway, newest: Position, nowMs: number): AlarmName | undefined {
  if (gateway.disconnectedAtMs !== undefined) return undefined;
  if (gateway.epoch === newest.epoch && gateway.revision > newest.revision) return "revision-unknown";
  if (gateway.refused !== undefined) return "snapshot-refused";
  return gateway.owedSinceMs !== undefined && nowMs - gateway.owedSinceMs > lateAfterMs ? "snapshot-late" : undefined;
}

/** Those that there are. */
export function alarmsOf(gateways: readonly Gateway[], newest: Position, nowMs: number): Alarm[] {
  const found = gateways.map((gateway) => alarmOf(gateway, newest, nowMs));
  return alarmNames
    .map((alarm) => ({ alarm, gateways: found.filter((one) => one === alarm).length }))
    .filter(({ gateways: count }) => count > 0);
}
