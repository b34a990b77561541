// Computes for gateways when a time zone's offset to UTC changes, for years ahead: nginx has no time zone data. Windows of the calendar began
// in the past, a year or nearly two ago, so some years of the past are there, too.

import type { ZoneTransition } from "@sluice/limiter/document/schedule.ts";

const daySeconds = 86_400;
/** A gateway's clock may be behind ours, and its snapshot may be old before it gets another one. */
const yearsAhead = 10;
const yearsBack = 3;
/** No zone changes its offset and changes it back within a week. */
const stepSeconds = 7 * daySeconds;

// The first formatter loads the zone data. This makes it load now, while no request waits.
offsetsOf("UTC")(0);

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
  const found = { name, transitions: findTransitions(name, nowSeconds), foundAtSeconds: nowSeconds };
  kept.set(name, found);
  return found;
}

export function isTimezone(timezone: string): boolean {
  return zoneName(timezone) !== undefined;
}

/**
 * Canonical names by names in lower case, because upper and lower case make no difference in a zone's name. So there are some thousands at most, whoever
 * spells them. To ask for one takes 0.1 ms.
 */
const names = new Map<string, string>();
/** Names of no zone, which anybody may invent. */
const unknownNames = new Set<string>();
const mostUnknownNames = 10_000;

/** @returns undefined if there is no such time zone */
export function zoneName(timezone: string): string | undefined {
  // A few letters beyond ASCII have ASCII ones in lower case: they must not make a zone unknown.
  if (!/^[!-~]+$/.test(timezone)) return undefined;
  const spelt = timezone.toLowerCase();
  const known = names.get(spelt);
  if (known !== undefined) return known;
  if (unknownNames.has(spelt)) return undefined;
  try {
    const name = new Intl.DateTimeFormat("en-US", { timeZone: timezone }).resolvedOptions().timeZone;
    names.set(spelt, name);
    return name;
  } catch {
    if (unknownNames.size >= mostUnknownNames) unknownNames.clear();
    unknownNames.add(spelt);
    return undefined;
  }
}

/** @param name canonical */
function findTransitions(name: string, nowSeconds: number): ZoneTransition[] {
  const today = Math.floor(nowSeconds / daySeconds) * daySeconds;
  const first = today - yearsBack * 366 * daySeconds;
  const always = minutesOf(/^([+-])(\d\d):(\d\d)$/.exec(name));
  if (always !== undefined) return [[first, always]];
  const offsetAt = offsetsOf(name);
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

/** Returns the zone's offset at a moment, in minutes. */
type OffsetAt = (seconds: number) => number;

/** @param name of a zone that there is */
function offsetsOf(name: string): OffsetAt {
  const format = new Intl.DateTimeFormat("en-US", { timeZone: name, timeZoneName: "longOffset" });
  return (seconds) => {
    const offset = format.formatToParts(seconds * 1000).find(({ type }) => type === "timeZoneName")?.value ?? "";
    return minutesOf(/^GMT([+-])(\d\d):(\d\d)/.exec(offset)) ?? 0;
  };
}

/** @param found the sign, the hours and the minutes */
function minutesOf(found: RegExpExecArray | null): number | undefined {
  if (found === null) return undefined;
  const [, sign, hours, minutes] = found;
  return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
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
