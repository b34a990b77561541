// Refusals by Redis that one worker heard, kept for all workers of this nginx. They are read only where Redis does not decide: a
// limit that is used up has nothing left then, whichever worker a request comes to, and also after a reload.

import type { LastHeard } from "../../../limiter/src/share.ts";
import { countersDict } from "../runtime/shared-memory.ts";
import { wallSeconds } from "../runtime/stopwatch.ts";
import { whole } from "./script-arguments.ts";

const prefix = "heard:";
/** A share that begins with nothing has refilled after a window; what was heard of longer ones is kept for a day. */
const longestSeconds = 86_400;

/** @param name the key of its first counter @param version of what operators changed by hand: what was heard before is void */
export function tellOtherWorkers(
  name: string,
  version: number,
  { atUs, nothingUntilUs, limits = [] }: LastHeard,
): void {
  const seconds = math.min(nothingUntilUs / 1_000_000 - wallSeconds(), longestSeconds);
  if (seconds <= 0) return;
  // Nobody's counter makes room for it.
  countersDict.safe_set(
    prefix + name,
    `${version} ${whole(atUs)} ${whole(nothingUntilUs)} ${limits.join(" ")}`,
    math.ceil(seconds),
  );
}

/** @returns undefined: nothing, or nothing that still holds */
export function heardByAnyone(name: string, version: number): LastHeard | undefined {
  const [text] = countersDict.get<string>(prefix + name);
  if (text === undefined) return undefined;
  const words = text.split(" ");
  if (tonumber(words[0]) !== version) return undefined;
  const limits: string[] = [];
  for (let i = 3; i < words.length; i++) limits.push(words[i] as string);
  return { atUs: tonumber(words[1]) as number, nothingUntilUs: tonumber(words[2]) as number, limits };
}
