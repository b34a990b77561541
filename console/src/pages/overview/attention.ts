// What needs somebody's attention, the worst first.

import type { Schemas } from "../../api/client.ts";
import type { Fleet } from "../../api/queries.ts";

export type Attention =
  | { readonly kind: "storage"; readonly state: "full" | "unreachable" | "unwritable" }
  | { readonly kind: "redis" }
  | { readonly kind: "noGateway" }
  | {
      readonly kind: "alarm";
      readonly alarm: NonNullable<Fleet["gateways"][number]["alarm"]>;
      readonly gateways: string[];
    }
  | { readonly kind: "gatewayRedis"; readonly gateways: string[] };

export function attentionOf(readiness: Schemas["Readiness"] | undefined, fleet: Fleet | undefined): Attention[] {
  const found: Attention[] = [];
  if (readiness !== undefined && readiness.storage !== "ok") found.push({ kind: "storage", state: readiness.storage });
  if (fleet === undefined) return found;
  if (fleet.redis.state === "failing") found.push({ kind: "redis" });
  if (fleet.connected === 0) found.push({ kind: "noGateway" });
  const byAlarm = new Map<NonNullable<Fleet["gateways"][number]["alarm"]>, string[]>();
  for (const { id, alarm } of fleet.gateways) {
    if (alarm !== null) byAlarm.set(alarm, [...(byAlarm.get(alarm) ?? []), id]);
  }
  for (const [alarm, gateways] of byAlarm) found.push({ kind: "alarm", alarm, gateways });
  // Probes of an overloaded Redis fail, too; what is said of the overload says more.
  const failing = fleet.gateways.filter(
    ({ connected, redis, alarm }) => connected && redis?.state === "failing" && alarm !== "redis-overloaded",
  );
  if (failing.length > 0) found.push({ kind: "gatewayRedis", gateways: failing.map(({ id }) => id) });
  return found;
}
