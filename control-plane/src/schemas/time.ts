// Reads times as callers write them: with a date, a time and a zone.

/** @returns milliseconds since 1970, or undefined when the text is not an RFC 3339 time */
export function parseTime(text: string): number | undefined {
  const parts = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i.exec(text);
  if (parts === null) return undefined;
  const [, year, month, day] = parts.map(Number) as [number, number, number, number];
  // Date.parse would read the 30th of February as a day in March.
  if (new Date(Date.UTC(year, month - 1, day)).getUTCDate() !== day) return undefined;
  const ms = Date.parse(text.toUpperCase());
  return Number.isNaN(ms) ? undefined : ms;
}
