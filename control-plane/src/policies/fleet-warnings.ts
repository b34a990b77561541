// Warns of what a policy means at the gateways that are connected.

import type { Problem } from "@sluice/limiter/document/validate.ts";

interface Gateway {
  readonly id: string;
  /** Undefined: it is connected. */
  readonly disconnectedAtMs: number | undefined;
  readonly lacksRedis: boolean;
}

/** The most gateways to name in one warning. */
const mostNamed = 5;

/** @param document valid, with its templates resolved @param gateways that the control plane knows, connected or not */
export function fleetWarnings(document: unknown, gateways: readonly Gateway[]): Problem[] {
  const { scope, mode } = document as { scope?: unknown; mode?: unknown };
  const connected = gateways.filter(({ disconnectedAtMs }) => disconnectedAtMs === undefined);
  if (scope === "cluster") return missingRedis(connected);
  if (scope !== undefined || mode === "off" || connected.length < 2) return [];
  const expected = "cluster, if all gateways are meant to count together; or node, if each is meant to count alone";
  const many = connected.length;
  const got = `nothing: each of the ${many} connected gateways counts by itself, so that they allow ${many} times as much`;
  return [{ path: "scope", expected, got }];
}

/** Each of them applies the policy's onStoreFailure. */
function missingRedis(connected: readonly Gateway[]): Problem[] {
  const without = connected.filter(({ lacksRedis }) => lacksRedis);
  if (without.length === 0) return [];
  const some = without.slice(0, mostNamed).map(({ id }) => id);
  const got = `none at ${some.join(", ")}${without.length > some.length ? " and others" : ""}`;
  return [{ path: "scope", expected: "SLUICE_REDIS_URL at every gateway", got }];
}
