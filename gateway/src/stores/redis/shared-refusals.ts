// Refusals by Redis that one worker heard, kept for all workers of this nginx. They are read only where Redis does not decide: a
// limit that is used up has nothing left then, whichever worker a request comes to, and also after a reload.

import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import { slabOfCell } from "../node/counter-cells.ts";
import { isCalm, takeFromReserve } from "../node/counter-memory.ts";
import { whole } from "./script-arguments.ts";

const prefix = "heard:";
/** A share that begins with nothing has refilled after a window; what was heard of longer ones is kept for a day. */
const longestSeconds = 86_400;

/**
 * @param owner names the policy: where memory is scarce, it takes no more of it than with its counters
 * @param name the key of its first counter
 * @param version of what operators changed by hand: what was heard before is void
 */
export function shareRefusal(
  owner: string,
  name: string,
  version: number,
  { atUs, nothingUntilUs, limits = [] }: LastKnown,
): void {
  const seconds = math.min(nothingUntilUs / 1_000_000 - wallSeconds(), longestSeconds);
  if (seconds <= 0) return;
  const key = prefix + name;
  const text = `${version} ${whole(atUs)} ${whole(nothingUntilUs)} ${limits.join(" ")}`;
  const lifeSeconds = math.ceil(seconds);
  // A spray of keys is refused with each of them: neither others' counters nor their newcomers make room for that.
  if (!isCalm() && countersDict.get(key)[0] === undefined) {
    if (!takeFromReserve(owner, slabOfCell(key, text.length), lifeSeconds)) return;
  }
  countersDict.safe_set(key, text, lifeSeconds);
}

/** @returns undefined: nothing, or nothing that still holds */
export function readSharedRefusal(name: string, version: number): LastKnown | undefined {
  const [text] = countersDict.get<string>(prefix + name);
  if (text === undefined) return undefined;
  const words = text.split(" ");
  if (tonumber(words[0]) !== version) return undefined;
  const limits: string[] = [];
  for (let i = 3; i < words.length; i++) limits.push(words[i] as string);
  return { atUs: tonumber(words[1]) as number, nothingUntilUs: tonumber(words[2]) as number, limits };
}
