// Which time zones a policy goes by: those of its schedule, and of windows of the calendar.

import type { Limit } from "../algorithms/limit.ts";
import type { Policy } from "./policy.ts";
import { utc } from "./schedule.ts";

/** @returns each once; `compilePolicy` needs them all */
export function timezonesOf({
  limits,
  plans,
  overrides,
  schedule,
}: Pick<Policy, "limits" | "plans" | "overrides" | "schedule">): readonly string[] {
  let timezones = schedule === undefined ? none : [schedule.timezone];
  timezones = withTimezones(timezones, limits);
  if (plans !== undefined) {
    for (const name in plans.limits) timezones = withTimezones(timezones, plans.limits[name] as readonly Limit[]);
  }
  for (const override of overrides ?? []) timezones = withTimezones(timezones, override.limits);
  return timezones;
}

/** Most policies have none. */
const none: readonly string[] = [];

function withTimezones(timezones: readonly string[], limits: readonly Limit[]): readonly string[] {
  let all = timezones;
  for (const { calendar } of limits) {
    if (calendar === undefined || calendar.timezone === utc || all.includes(calendar.timezone)) continue;
    all = [...all, calendar.timezone];
  }
  return all;
}
