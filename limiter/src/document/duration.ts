// Parses durations as operators write them: an integer and a unit, like "250ms", "30s" or "1d".

import { emptyTable } from "../basics/table.ts";

const unitsUs = emptyTable<number>();
unitsUs["ms"] = 1_000;
unitsUs["s"] = 1_000_000;
unitsUs["m"] = 60_000_000;
unitsUs["h"] = 3_600_000_000;
unitsUs["d"] = 86_400_000_000;

/** @returns the duration in µs, or undefined if the text is not a duration */
export function parseDuration(text: string): number | undefined {
  let digits = 0;
  let count = 0;
  while (digits < text.length) {
    const code = text.charCodeAt(digits);
    if (code < 48 || code > 57) break;
    count = count * 10 + (code - 48);
    digits += 1;
  }
  if (digits === 0 || digits > 15) return undefined;
  const unitUs = unitsUs[text.slice(digits)];
  return unitUs === undefined ? undefined : count * unitUs;
}

/** Returns the shortest form of a duration: 60000000 → "1m". @param durationUs a whole number of ms, in µs */
export function formatDuration(durationUs: number): string {
  for (const unit of ["d", "h", "m", "s"]) {
    const unitUs = unitsUs[unit] as number;
    if (durationUs % unitUs === 0) return `${durationUs / unitUs}${unit}`;
  }
  return `${durationUs / 1_000}ms`;
}
