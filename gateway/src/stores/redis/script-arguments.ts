// Numbers as scripts are given them: as text.

import { type CalendarWindow, followWindow } from "../../../../limiter/src/algorithms/calendar-window.ts";
import type { Rate } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { scriptNumbers, windowMoments } from "../../../../limiter/src/protocol/redis-keys.ts";
import { nowUs } from "../../runtime/clock.ts";
import { weakTable } from "../../runtime/tables.ts";

type NumberTexts = readonly [quota: string, windowUs: string, size: string];

const numberTexts = weakTable<Rate, NumberTexts>();

/** Adds what every script is given about a counter: quota, window in µs, burst or precision (or a calendar's moments), cost. */
export function pushNumbers(args: string[], { rate }: CompiledLimit, cost: number): void {
  const numbers = numberTexts.get(rate) ?? textsOf(rate);
  args.push(numbers[0]);
  args.push(numbers[1]);
  args.push(rate.algorithm === "calendar-window" ? presentMoments(rate) : numbers[2]);
  args.push(cost === 1 ? "1" : whole(cost));
}

function presentMoments(window: CalendarWindow): string {
  followWindow(window, nowUs());
  return windowMoments(window, whole);
}

function textsOf(rate: Rate): NumberTexts {
  const [quota, windowUs, size] = scriptNumbers(rate);
  const texts: NumberTexts = [whole(quota), whole(windowUs), typeof size === "string" ? size : whole(size)];
  numberTexts.set(rate, texts);
  return texts;
}

/** Writes every digit: Lua's own conversion keeps 14. */
export function whole(number: number): string {
  return string.format("%.0f", number);
}
