// What the page asks the worker for, and what comes back. Both are plain data, which a worker can be sent.

import { validatePolicy } from "../../../limiter/src/document/validate.ts";
import type { Offer } from "./shapes.ts";
import { trafficOf } from "./shapes.ts";
import { type Simulation, simulate } from "./simulate.ts";
import { zonesFor } from "./zone-transitions.ts";

export interface ForecastRequest {
  /** Documents of policies, as JSON has them. Both are played with the same traffic. */
  readonly draft: unknown;
  /** What is in force. Undefined: no such policy is. */
  readonly inForce: unknown;
  readonly offer: Offer;
  /** How long each request takes once it goes on. */
  readonly requestMs: number;
  readonly responseBytes?: number;
  readonly binCount: number;
  readonly withDecisions?: boolean;
}

export interface ForecastResult {
  /** Undefined: the document has problems, which its editor shows. */
  readonly draft: Simulation | undefined;
  readonly inForce: Simulation | undefined;
  readonly atUs: Float64Array;
  readonly keyOf: Uint32Array;
}

export function forecastOf(request: ForecastRequest): ForecastResult {
  const { draft, inForce, offer } = request;
  const traffic = trafficOf(offer);
  const play = (document: unknown): Simulation | undefined => {
    const { policy } = validatePolicy(document);
    if (policy === undefined) return undefined;
    const { startUs, durationSeconds } = offer;
    const fromSeconds = startUs / 1_000_000;
    return simulate(policy, traffic, {
      zones: zonesFor(policy, fromSeconds, fromSeconds + durationSeconds),
      durationUs: request.requestMs * 1000,
      responseBytes: request.responseBytes ?? 0,
      fromUs: startUs,
      binUs: (durationSeconds * 1_000_000) / request.binCount,
      binCount: request.binCount,
      withDecisions: request.withDecisions ?? false,
    });
  };
  return {
    draft: play(draft),
    inForce: inForce === undefined ? undefined : play(inForce),
    atUs: traffic.atUs,
    keyOf: traffic.keyOf,
  };
}
