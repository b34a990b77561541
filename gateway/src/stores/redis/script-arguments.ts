// What scripts are told of a counter: the key that it has in Redis, and its limit's numbers.

import { sizeOf } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy, NumberTexts } from "../../../../limiter/src/compiled/compile.ts";

const keyPrefix = "sluice:";

export function keyOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): string {
  return keyPrefix + policy.counterPrefix + keyValues + limit.counterSuffix;
}

/** What every script is told of a counter: quota, window, burst or precision, cost. */
export function pushNumbers(args: string[], limit: CompiledLimit, cost: number): void {
  const numbers = limit.numberTexts ?? textsOf(limit);
  args.push(numbers[0]);
  args.push(numbers[1]);
  args.push(numbers[2]);
  args.push(cost === 1 ? "1" : whole(cost));
}

function textsOf(limit: CompiledLimit): NumberTexts {
  const { rate } = limit;
  const texts: NumberTexts = [whole(rate.quota), whole(rate.windowUs), whole(sizeOf(rate))];
  limit.numberTexts = texts;
  return texts;
}

/** Every digit: Lua's own way to text keeps 14. */
export function whole(number: number): string {
  return string.format("%.0f", number);
}
