// Numbers as scripts are given them: as text.

import type { CompiledLimit, NumberTexts } from "../../../../limiter/src/compiled/compile.ts";
import { scriptNumbers } from "../../../../limiter/src/protocol/redis-keys.ts";

/** Adds what every script is given about a counter: quota, window in µs, burst or precision, cost. */
export function pushNumbers(args: string[], limit: CompiledLimit, cost: number): void {
  const numbers = limit.numberTexts ?? textsOf(limit);
  args.push(numbers[0]);
  args.push(numbers[1]);
  args.push(numbers[2]);
  args.push(cost === 1 ? "1" : whole(cost));
}

function textsOf(limit: CompiledLimit): NumberTexts {
  const [quota, windowUs, size] = scriptNumbers(limit.rate);
  const texts: NumberTexts = [whole(quota), whole(windowUs), whole(size)];
  limit.numberTexts = texts;
  return texts;
}

/** Writes every digit: Lua's own conversion keeps 14. */
export function whole(number: number): string {
  return string.format("%.0f", number);
}
