// ?strict=true: what is warned of is refused.

import { ApiError, type LocatedProblem } from "./api-error.ts";

/** @throws ApiError with the code, if there are warnings */
export function refuseWarnings(
  code: "invalid-policy" | "invalid-request" | "invalid-consumers",
  warnings: readonly LocatedProblem[],
): void {
  if (warnings.length === 0) return;
  const count = warnings.length === 1 ? "is 1 warning" : `are ${warnings.length} warnings`;
  const detail = `There ${count}, and strict=true refuses what there are warnings of. Nothing was stored.`;
  throw new ApiError(code, detail, { errors: warnings });
}
