// When the clocks of a time zone change, for schedules and windows of the calendar: asked of the browser, which knows time zones.

import type { Policy } from "../../../limiter/src/document/policy.ts";
import type { Zones, ZoneTransition } from "../../../limiter/src/document/schedule.ts";
import { timezonesOf } from "../../../limiter/src/document/timezones.ts";

const daySeconds = 86_400;
/** No zone changes its offset and changes it back within a week. */
const stepSeconds = 7 * daySeconds;
/** A year's window before the present one began nearly two years ago. */
const backSeconds = 3 * 366 * daySeconds;

/** @returns what `compilePolicy` needs for this time */
export function zonesFor(policy: Policy, fromSeconds: number, toSeconds: number): Zones {
  return Object.fromEntries(timezonesOf(policy).map((name) => [name, zoneTransitions(name, fromSeconds, toSeconds)]));
}

/** @returns an offset from some years before the beginning on, and each change until the end */
export function zoneTransitions(timezone: string, fromSeconds: number, toSeconds: number): ZoneTransition[] {
  const format = new Intl.DateTimeFormat("en-US", { timeZone: timezone, timeZoneName: "longOffset" });
  const first = Math.floor((fromSeconds - backSeconds) / daySeconds) * daySeconds;
  let known = offsetMinutes(format, first);
  const transitions: ZoneTransition[] = [[first, known]];
  for (let at = first; at < toSeconds; at += stepSeconds) {
    const next = offsetMinutes(format, at + stepSeconds);
    if (next !== known) transitions.push([firstSecond(format, next, at, at + stepSeconds), next]);
    known = next;
  }
  return transitions;
}

/** Finds the first second with this offset. @param before a second with another @param after a second with it */
function firstSecond(format: Intl.DateTimeFormat, offset: number, before: number, after: number): number {
  let low = before;
  let high = after;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetMinutes(format, middle) === offset) high = middle;
    else low = middle;
  }
  return high;
}

function offsetMinutes(format: Intl.DateTimeFormat, atSeconds: number): number {
  const name = format.formatToParts(atSeconds * 1000).find(({ type }) => type === "timeZoneName")?.value ?? "GMT";
  const [, sign, hours = "0", minutes = "0"] = /^GMT([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  const ahead = Number(hours) * 60 + Number(minutes);
  return sign === "-" ? -ahead : ahead;
}
