// The measured policies: all of scope cluster, each on a path of its own, all at the same time.

import type { Limit } from "../../limiter/src/algorithms/limit.ts";

export interface Measured {
  readonly name: string;
  readonly consistency: "exact" | "leased";
  readonly limit: Omit<Limit, "name">;
}

/** The load is this many times the limit. */
export const overload = 3;

const secondUs = 1_000_000;

function limit(algorithm: Limit["algorithm"], quota: number, seconds: number, burst = quota): Measured["limit"] {
  const windowUs = seconds * secondUs;
  return { algorithm, quota, windowUs, burst, precisionUs: algorithm === "sliding-window" ? windowUs / 10 : 0 };
}

const leased = (of: Measured["limit"]): Measured => ({
  name: `${of.algorithm}-leased`,
  consistency: "leased",
  limit: of,
});
const exact = (of: Measured["limit"]): Measured => ({ name: `${of.algorithm}-exact`, consistency: "exact", limit: of });

// Together these get 3,150 requests a second, which two cores send beside what is measured. The leased bucket's burst is the
// least that is leased.
export const measured: readonly Measured[] = [
  leased(limit("token-bucket", 400, 1, 200)),
  leased(limit("fixed-window", 200, 1)),
  leased(limit("sliding-window", 2000, 10)),
  exact(limit("token-bucket", 50, 1, 10)),
  exact(limit("fixed-window", 50, 1)),
  exact(limit("sliding-window", 500, 10)),
  exact(limit("sliding-log", 50, 1)),
  exact(limit("leaky-bucket", 50, 1, 10)),
];

export function perSecond({ limit: { quota, windowUs } }: Measured): number {
  return (quota * secondUs) / windowUs;
}

/** @returns the policy as an operator writes it */
export function documentOf({ name, consistency, limit: { algorithm, quota, windowUs, burst } }: Measured) {
  const isBucket = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  return {
    name,
    scope: "cluster",
    consistency,
    // Only Redis and what it has leased admit anything.
    onStoreFailure: "deny",
    match: { paths: [`/${name}`] },
    limits: [{ algorithm, quota, window: `${windowUs / 1000}ms`, ...(isBucket ? { burst } : {}) }],
  };
}

/** @returns the limit as text, like "token-bucket 400/s, burst 40" or "sliding-window 4000/10 s" */
export function inWords({ limit: { algorithm, quota, windowUs, burst } }: Measured): string {
  const seconds = windowUs / secondUs;
  const isBucket = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  return `${algorithm} ${quota}/${seconds === 1 ? "" : `${seconds} `}s${isBucket ? `, burst ${burst}` : ""}`;
}
