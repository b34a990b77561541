// When a policy is on, by what the clocks of its time zone show (docs/policies.md, "schedule").

import type { ScheduleDocument } from "../world.ts";
import { changesOf } from "./calendar.ts";

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
const daysOfWeek = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

export function isOn({ timezone, windows }: ScheduleDocument, nowMs: number): boolean {
  const [, offsetMs = 0] = changesOf(timezone).findLast(([atMs]) => atMs <= nowMs) ?? [];
  const shown = nowMs + offsetMs;
  const day = Math.floor(shown / dayMs);
  const timeMs = shown - day * dayMs;
  return windows.some(({ days, from, to }) => {
    const begins = (at: number) => days === undefined || days.includes(dayOfWeek(at));
    const [fromMs, toMs] = [timeOfDayMs(from), timeOfDayMs(to)];
    if (fromMs < toMs) return begins(day) && timeMs >= fromMs && timeMs < toMs;
    return (begins(day) && timeMs >= fromMs) || (begins(day - 1) && timeMs < toMs);
  });
}

/** @param day counted from 1 January 1970, which was a Thursday */
function dayOfWeek(day: number): string {
  return daysOfWeek[(((day + 3) % 7) + 7) % 7] as string;
}

function timeOfDayMs(text: string): number {
  const [hours = 0, minutes = 0] = text.split(":").map(Number);
  return (hours * 60 + minutes) * minuteMs;
}
