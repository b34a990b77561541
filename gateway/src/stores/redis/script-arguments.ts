// The arguments of scripts for a counter: its key in Redis, and the numbers of its limit.

import { sizeOf } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy, NumberTexts } from "../../../../limiter/src/compiled/compile.ts";

const keyPrefix = "sluice:";

export function keyOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): string {
  return keyPrefix + policy.counterPrefix + keyValues + limit.counterSuffix;
}

/** Adds the numbers that every script takes for a counter: quota, window, burst or precision, cost. */
export function pushNumbers(args: string[], limit: CompiledLimit, cost: number): void {
  const numbers = limit.numberTexts ?? textsOf(limit);
  args.push(numbers[0]);
  args.push(numbers[1]);
  args.push(numbers[2]);
  args.push(cost === 1 ? "1" : whole(cost));
}

export function numbersOf(limit: CompiledLimit, cost: number): string[] {
  const numbers: string[] = [];
  pushNumbers(numbers, limit, cost);
  return numbers;
}

function textsOf(limit: CompiledLimit): NumberTexts {
  const { rate } = limit;
  const texts: NumberTexts = [whole(rate.quota), whole(rate.windowUs), whole(sizeOf(rate))];
  limit.numberTexts = texts;
  return texts;
}

/** Text with all digits: Lua's own conversion keeps 14. */
export function whole(number: number): string {
  return string.format("%.0f", number);
}
