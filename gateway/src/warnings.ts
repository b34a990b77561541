// Warnings tell an operator of this gateway that a part is missing, that a variable is misspelt, or that no request has been counted.
// GET /sluice/healthz and the control plane show them.

import { decisionResults, decisionTotals, eventCount } from "./metrics/counts.ts";
import { missingParts } from "./runtime/missing-parts.ts";
import type { Settings } from "./settings.ts";
import { currentState } from "./snapshot/current.ts";

/** The control plane takes no more, and no sentence of more than 200 characters. */
const mostWarnings = 10;

/** Returns sentences. */
export function warningsOf({ unknown }: Settings): string[] {
  const missing = missingParts();
  // Without some parts, what is decided is not counted.
  const idle =
    missing.length === 0 && hasDecidedNothing()
      ? [
          "no policy has counted a request since nginx started: if it should have, the locations do not call sluice.access()",
        ]
      : [];
  return missing.concat(idle, unknown).slice(0, mostWarnings);
}

/** A request that meets no policy, or that each of them exempts, is not counted anywhere. One of an address that is banned meets none either. */
function hasDecidedNothing(): boolean {
  if (currentState().policyCount === 0 || eventCount("banned-requests") > 0) return false;
  const totals = decisionTotals();
  return decisionResults.every((result) => totals[result] === 0);
}
