// When the clocks of a time zone change, for the schedule of a policy: asked of the browser, which knows time zones.

import type { ZoneTransition } from "../../../limiter/src/document/schedule.ts";

const stepSeconds = 900;
/** A forecast of a year takes some 35,000 questions; a longer one would be wrong only about the hour of a change. */
const mostSteps = 40_000;

/** @returns the offset at the beginning, and each change until the end; clocks change on the quarter of an hour */
export function zoneTransitions(timezone: string, fromSeconds: number, toSeconds: number): ZoneTransition[] {
  const format = new Intl.DateTimeFormat("en-US", { timeZone: timezone, timeZoneName: "longOffset" });
  const first = Math.floor(fromSeconds / stepSeconds) * stepSeconds;
  const transitions: ZoneTransition[] = [];
  let known: number | undefined;
  for (let step = 0; step < mostSteps && first + step * stepSeconds <= toSeconds; step++) {
    const atSeconds = first + step * stepSeconds;
    const minutes = offsetMinutes(format, atSeconds);
    if (minutes !== known) transitions.push([atSeconds, minutes]);
    known = minutes;
  }
  return transitions;
}

function offsetMinutes(format: Intl.DateTimeFormat, atSeconds: number): number {
  const name = format.formatToParts(atSeconds * 1000).find(({ type }) => type === "timeZoneName")?.value ?? "GMT";
  const [, sign, hours = "0", minutes = "0"] = /^GMT([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  const ahead = Number(hours) * 60 + Number(minutes);
  return sign === "-" ? -ahead : ahead;
}
