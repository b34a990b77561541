// Windows of the calendar: from when to when the clocks of a zone say that it is one hour, day, week, month or year
// (docs/policies.md, "Windows of the calendar"). Node knows the clocks; everything else is counted here.

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

export type CalendarUnit = "hour" | "day" | "week" | "month" | "year";

export const calendarUnits: readonly string[] = ["hour", "day", "week", "month", "year"];

/** A moment at which clocks change, and their offset to UTC from then on. */
export type Change = readonly [atMs: number, offsetMs: number];

export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Returns the window that a moment is in. */
export function windowAround(
  ms: number,
  unit: CalendarUnit,
  timezone: string,
  anchor: number | string | undefined,
): Span {
  const changes = changesOf(timezone);
  const beginnings = unit === "hour" ? fullHours(ms, changes) : midnights(ms, unit, anchor, changes);
  const fromMs = Math.max(...beginnings.filter((at) => at <= ms));
  const toMs = Math.min(...beginnings.filter((at) => at > ms));
  return { fromMs, toMs };
}

/** Moments around this one at which the clocks show a full hour. */
function fullHours(ms: number, changes: readonly Change[]): number[] {
  const found: number[] = [];
  for (const [i, [atMs, offsetMs]] of changes.entries()) {
    const endMs = changes[i + 1]?.[0] ?? Number.POSITIVE_INFINITY;
    const firstMs = Math.max(atMs, ms - 3 * hourMs);
    const first = Math.ceil((firstMs + offsetMs) / hourMs) * hourMs - offsetMs;
    for (let at = first; at < Math.min(endMs, ms + 3 * hourMs); at += hourMs) found.push(at);
  }
  return found;
}

/** Moments around this one at which a first day of such windows begins. */
function midnights(
  ms: number,
  unit: Exclude<CalendarUnit, "hour">,
  anchor: number | string | undefined,
  changes: readonly Change[],
): number[] {
  const reach = { day: 3, week: 9, month: 70, year: 800 }[unit];
  const today = Math.floor(ms / dayMs);
  const found: number[] = [];
  for (let day = today - reach; day <= today + reach; day++) {
    if (!isFirstDay(day, unit, anchor)) continue;
    const begins = beginningOfDay(day, changes);
    if (begins !== undefined) found.push(begins);
  }
  return found;
}

/** @param day counted from 1 January 1970 */
function isFirstDay(day: number, unit: Exclude<CalendarUnit, "hour">, anchor: number | string | undefined): boolean {
  const date = new Date(day * dayMs);
  if (unit === "day") return true;
  // 1 January 1970 was a Thursday, the fourth day of its week.
  if (unit === "week") return ((((day + 3) % 7) + 7) % 7) + 1 === Number(anchor ?? 1);
  const [month, dayOfMonth] =
    unit === "month"
      ? [date.getUTCMonth() + 1, Number(anchor ?? 1)]
      : String(anchor ?? "01-01")
          .split("-")
          .map(Number);
  if (date.getUTCMonth() + 1 !== month) return false;
  const lastOfMonth = new Date(Date.UTC(date.getUTCFullYear(), month, 0)).getUTCDate();
  return date.getUTCDate() === Math.min(dayOfMonth as number, lastOfMonth);
}

/** The first moment at which the clocks show this day; undefined: they skip it. */
function beginningOfDay(day: number, changes: readonly Change[]): number | undefined {
  let first: number | undefined;
  for (const [i, [atMs, offsetMs]] of changes.entries()) {
    const endMs = changes[i + 1]?.[0] ?? Number.POSITIVE_INFINITY;
    const fromMs = Math.max(atMs, day * dayMs - offsetMs);
    if (fromMs < Math.min(endMs, (day + 1) * dayMs - offsetMs) && (first === undefined || fromMs < first)) {
      first = fromMs;
    }
  }
  return first;
}

const known = new Map<string, readonly Change[]>();

/** All changes of a zone's clocks in the years of the worlds. The first one is the offset before all others. */
export function changesOf(timezone: string): readonly Change[] {
  let changes = known.get(timezone);
  if (changes === undefined) {
    changes = changesBetween(timezone, Date.UTC(2015, 0), Date.UTC(2110, 0));
    known.set(timezone, changes);
  }
  return changes;
}

function changesBetween(timezone: string, fromMs: number, toMs: number): readonly Change[] {
  const offsetAt = offsetsOf(timezone);
  const changes: Change[] = [[fromMs, offsetAt(fromMs)]];
  // No zone changes its clocks and changes them back within a week.
  for (let at = fromMs; at < toMs; at += 7 * dayMs) {
    const after = offsetAt(at + 7 * dayMs);
    if (after === changes.at(-1)?.[1]) continue;
    let before = at;
    let from = at + 7 * dayMs;
    while (from - before > 1_000) {
      const middle = Math.floor((before + from) / 2_000) * 1_000;
      if (offsetAt(middle) === after) from = middle;
      else before = middle;
    }
    changes.push([from, after]);
  }
  return changes;
}

function offsetsOf(timezone: string): (ms: number) => number {
  const format = new Intl.DateTimeFormat("en-GB", {
    timeZone: timezone,
    calendar: "iso8601",
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  return (ms) => {
    const shown: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(ms)) shown[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = shown;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1_000) * 1_000;
  };
}
