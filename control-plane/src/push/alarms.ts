// Finds what is wrong with connected gateways: they fail, do not have the stored state, have no Redis or another one than their fleet, or find
// it too slow. Everything still runs, but an operator must look after them.
// /readyz, /metrics and GET /gateways report them.

import type { Position } from "../storage/epoch.ts";
import type { Gateway } from "./fleet.ts";

/**
 * sluice-errors: Sluice itself failed in the gateway within the last minutes, so requests may have passed without a decision.
 * snapshot-refused: the gateway refused the newest snapshot that it was sent, or could not take it, and continues with an
 * older one.
 * snapshot-late: the gateway has not reported on a snapshot that it was sent, for longer than that takes.
 * revision-unknown: the gateway holds a later revision of this history than the database does, and refuses new snapshots.
 * consumers-full: the gateway has no memory for all consumers. Those that it lacks have the default plan there.
 * redis-missing: the gateway has no Redis, and enforced policies of scope cluster need one: it decides by their onStoreFailure.
 * another-redis: the gateway, or some of its workers, use another Redis than the control plane, or than most gateways.
 * redis-overloaded: the gateway decides by its share by choice, because Redis is slower than its operator allows.
 * another-database: a control plane with another database uses the same Redis, so gateways count together that have other policies.
 */
export const alarmNames = [
  "sluice-errors",
  "snapshot-refused",
  "snapshot-late",
  "revision-unknown",
  "consumers-full",
  "redis-missing",
  "another-redis",
  "redis-overloaded",
  "another-database",
] as const;
export type AlarmName = (typeof alarmNames)[number];

export interface Alarm {
  readonly alarm: AlarmName;
  /** How many connected gateways have the alarm; of another-database: how many are connected. */
  readonly gateways: number;
}

const lateAfterMs = 30_000;

/** What decides about alarms besides the gateway itself. */
export interface AlarmSurroundings {
  readonly newest: Position;
  readonly nowMs: number;
  /** The ids of gateways that use another Redis. */
  readonly strays: ReadonlySet<string>;
  /** Whether any policy enforces limits whose counters are in Redis. */
  readonly needsRedis: boolean;
  readonly hearsAnotherDatabase: boolean;
}

export function alarmOf(
  gateway: Gateway,
  { newest, nowMs, strays, needsRedis }: AlarmSurroundings,
): AlarmName | undefined {
  if (gateway.disconnectedAtMs !== undefined) return undefined;
  if (gateway.errors !== undefined) return "sluice-errors";
  if (gateway.epoch === newest.epoch && gateway.revision > newest.revision) return "revision-unknown";
  if (gateway.refused !== undefined) return "snapshot-refused";
  if (gateway.owedSinceMs !== undefined && nowMs - gateway.owedSinceMs > lateAfterMs) return "snapshot-late";
  if ((gateway.consumers?.unstored ?? 0) > 0) return "consumers-full";
  if (needsRedis && gateway.lacksRedis) return "redis-missing";
  if (strays.has(gateway.id)) return "another-redis";
  return (gateway.redis?.overloadedWorkers ?? 0) > 0 ? "redis-overloaded" : undefined;
}

/** Returns the alarms that at least one gateway has, and that of another database. */
export function alarmsOf(gateways: readonly Gateway[], surroundings: AlarmSurroundings): Alarm[] {
  const found = gateways.map((gateway) => alarmOf(gateway, surroundings));
  const alarms: Alarm[] = alarmNames
    .map((alarm) => ({ alarm, gateways: found.filter((one) => one === alarm).length }))
    .filter(({ gateways: count }) => count > 0);
  if (surroundings.hearsAnotherDatabase) {
    const connected = gateways.filter(({ disconnectedAtMs }) => disconnectedAtMs === undefined).length;
    alarms.push({ alarm: "another-database", gateways: connected });
  }
  return alarms;
}
