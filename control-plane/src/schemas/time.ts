// Reads times as callers write them: with a date, a time and a zone.

/** The last second that RFC 3339 can write in UTC. A time with an offset may be later. */
const lastMs = Date.UTC(9999, 11, 31, 23, 59, 59);

/** @returns milliseconds since 1970, or undefined when the text is not an RFC 3339 time, or none that can be written in UTC */
export function parseTime(text: string): number | undefined {
  const parts = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i.exec(text);
  if (parts === null) return undefined;
  const [, year, month, day] = parts.map(Number) as [number, number, number, number];
  // Date.parse would read the 30th of February as a day in March.
  if (new Date(Date.UTC(year, month - 1, day)).getUTCDate() !== day) return undefined;
  const ms = Date.parse(text.toUpperCase());
  return ms <= lastMs ? ms : undefined;
}
