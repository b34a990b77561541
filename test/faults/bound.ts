// Whether more was admitted than a token bucket ever admits. A request was decided at some moment between being sent and
// being answered, so those that lie in an interval with both ends were decided in it: no false alarm, however late an
// answer was.

/** When a request that was admitted was sent, and answered. */
export interface Admission {
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

/** Units that a fault may have made the counter forget, once, between these moments. */
export interface Loss {
  readonly fromMs: number;
  readonly toMs: number;
  readonly units: number;
}

/**
 * @returns the most that was admitted within any interval of length t beyond `ratePerSecond · t` and what was lost in it:
 * at most the bucket's burst, if it is kept
 */
export function mostAtOnce(
  admissions: readonly Admission[],
  ratePerSecond: number,
  losses: readonly Loss[] = [],
): number {
  const byAnswer = admissions.toSorted((a, b) => a.answeredAtMs - b.answeredAtMs);
  let most = 0;
  for (const { sentAtMs: fromMs } of admissions) {
    let count = 0;
    for (const { sentAtMs, answeredAtMs: toMs } of byAnswer) {
      if (sentAtMs < fromMs) continue;
      count += 1;
      const refilled = ((toMs - fromMs) / 1000) * ratePerSecond;
      if (count - refilled > most) most = Math.max(most, count - refilled - lostWithin(losses, fromMs, toMs));
    }
  }
  return most;
}

function lostWithin(losses: readonly Loss[], fromMs: number, toMs: number): number {
  let units = 0;
  for (const loss of losses) if (loss.fromMs <= toMs && loss.toMs >= fromMs) units += loss.units;
  return units;
}
