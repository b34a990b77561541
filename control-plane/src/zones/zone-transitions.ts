// Computes for gateways when a time zone's offset to UTC changes, for years ahead: nginx has no time zone data. Windows of the calendar began
// in the past, a year or nearly two ago, so some years of the past are there, too.

import type { ZoneTransition } from "@sluice/limiter/document/schedule.ts";

const daySeconds = 86_400;
/** A gateway's clock may be behind ours, and its snapshot may be old before it gets another one. */
const yearsAhead = 10;
const yearsBack = 3;
/** No zone changes its offset and changes it back within a week. */
const stepSeconds = 7 * daySeconds;

/** Keyed by time zone. Computing a zone takes milliseconds, and every snapshot needs all zones again. */
const known = new Map<string, { readonly atSeconds: number; readonly transitions: readonly ZoneTransition[] }>();
/** More than there are zone names, because an offset like "+01:23" counts as a zone too. */
const mostKnown = 4_000;
const knownForSeconds = 30 * daySeconds;

// The first formatter loads the zone data. This makes it load now, while no request waits.
offsetsOf("UTC")?.(0);

/** Returns undefined if there is no such time zone. */
export function zoneTransitions(timezone: string, nowSeconds: number): readonly ZoneTransition[] | undefined {
  const before = known.get(timezone);
  const age = nowSeconds - (before?.atSeconds ?? 0);
  if (before !== undefined && age >= 0 && age < knownForSeconds) return before.transitions;
  const transitions = findTransitions(timezone, nowSeconds);
  if (transitions === undefined) return undefined;
  if (known.size >= mostKnown) known.clear();
  known.set(timezone, { atSeconds: nowSeconds, transitions });
  return transitions;
}

function findTransitions(timezone: string, nowSeconds: number): ZoneTransition[] | undefined {
  const offsetAt = offsetsOf(timezone);
  if (offsetAt === undefined) return undefined;
  const today = Math.floor(nowSeconds / daySeconds) * daySeconds;
  const first = today - yearsBack * 366 * daySeconds;
  const last = today + yearsAhead * 366 * daySeconds;
  let offset = offsetAt(first);
  const transitions: ZoneTransition[] = [[first, offset]];
  for (let at = first; at < last; at += stepSeconds) {
    const next = offsetAt(at + stepSeconds);
    if (next === offset) continue;
    transitions.push([firstMoment(offsetAt, next, at, at + stepSeconds), next]);
    offset = next;
  }
  return transitions;
}

/** A zone under its canonical name, which all spellings of it share, and the changes of its offset. */
export interface KnownZone {
  readonly name: string;
  readonly transitions: readonly ZoneTransition[];
  readonly foundAtSeconds: number;
}

/**
 * Computing a zone's transitions takes milliseconds, and they do not change. They are kept for a month and reach years
 * ahead.
 */
const keepSeconds = 30 * daySeconds;
const kept = new Map<string, KnownZone>();

/** @returns undefined if there is no such time zone */
export function knownZone(timezone: string, nowSeconds: number): KnownZone | undefined {
  const name = zoneName(timezone);
  if (name === undefined) return undefined;
  const known = kept.get(name);
  if (known !== undefined && Math.abs(nowSeconds - known.foundAtSeconds) < keepSeconds) return known;
  const transitions = zoneTransitions(name, nowSeconds);
  if (transitions === undefined) return undefined;
  const found = { name, transitions, foundAtSeconds: nowSeconds };
  kept.set(name, found);
  return found;
}

const names = new Map<string, string>();
const mostNames = 10_000;

function zoneName(timezone: string): string | undefined {
  const known = names.get(timezone);
  if (known !== undefined) return known;
  try {
    const name = new Intl.DateTimeFormat("en-US", { timeZone: timezone }).resolvedOptions().timeZone;
    if (names.size >= mostNames) names.clear();
    names.set(timezone, name);
    return name;
  } catch {
    return undefined;
  }
}

export function isTimezone(timezone: string): boolean {
  return offsetsOf(timezone) !== undefined;
}

/** Returns the zone's offset at a moment, in minutes. */
type OffsetAt = (seconds: number) => number;

function offsetsOf(timezone: string): OffsetAt | undefined {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", { timeZone: timezone, timeZoneName: "longOffset" });
  } catch {
    return undefined;
  }
  return (seconds) => {
    const name = format.formatToParts(seconds * 1000).find(({ type }) => type === "timeZoneName")?.value ?? "";
    const [, sign, hours, minutes] = /^GMT(?:([+-])(\d\d):(\d\d))?/.exec(name) ?? [];
    return (sign === "-" ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0));
  };
}

/** Finds the first second with `offset` by bisection. @param before a second with another offset than `after` */
function firstMoment(offsetAt: OffsetAt, offset: number, before: number, after: number): number {
  let low = before;
  let high = after;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(middle) === offset) high = middle;
    else low = middle;
  }
  return high;
}
