// Warns of a policy that gateways cannot enforce together.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { Gateway } from "../push/fleet.ts";

/** The most gateways to name in one warning. */
const mostNamed = 5;

/** Returns a warning about gateways without Redis: each of them would apply the policy's onStoreFailure. */
export function missingRedis(document: unknown, gateways: readonly Gateway[]): Problem[] {
  if ((document as { scope?: unknown }).scope !== "cluster") return [];
  const without = gateways.filter(({ disconnectedAtMs, lacksRedis }) => disconnectedAtMs === undefined && lacksRedis);
  if (without.length === 0) return [];
  const some = without.slice(0, mostNamed).map(({ id }) => id);
  const got = `none at ${some.join(", ")}${without.length > some.length ? " and others" : ""}`;
  return [{ path: "scope", expected: "SLUICE_REDIS_URL at every gateway", got }];
}
