// Refusals by Redis that one worker received, shared with all workers of this nginx. They are read only if Redis does not decide:
// then a limit that is used up has nothing left, whichever worker handles the request, and also after a reload.

import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import { slabOfCell } from "../node/counter-cells.ts";
import { isCalm, takeFromReserve } from "../node/counter-memory.ts";
import { whole } from "./script-arguments.ts";

const prefix = "heard:";
/** A share that starts empty has refilled after a window; refusals of limits with longer windows are kept for a day. */
const longestSeconds = 86_400;

/**
 * @param owner names the policy: while memory is scarce, refusals and counters of the policy share one limit of memory
 * @param name the key of the policy's first counter
 * @param version of operators' changes: refusals with an earlier version are void
 * @param untilSeconds since the epoch: then the refused request may be allowed
 */
export function shareRefusal(
  owner: string,
  name: string,
  version: number,
  { atUs, nothingUntilUs, limits = [] }: LastKnown,
  untilSeconds: number,
): void {
  const seconds = math.min(untilSeconds - wallSeconds(), longestSeconds);
  if (seconds <= 0) return;
  const key = prefix + name;
  const text = `${version} ${whole(atUs)} ${whole(nothingUntilUs)} ${limits.join(" ")}`;
  const lifeSeconds = math.ceil(seconds);
  // A spray of keys is refused with each of them: no counters of other policies, and no new counters, may lose memory to that.
  if (!isCalm() && countersDict.get(key)[0] === undefined) {
    if (!takeFromReserve(owner, slabOfCell(key, text.length), lifeSeconds)) return;
  }
  countersDict.safe_set(key, text, lifeSeconds);
}

/** Called when the key has units after all. */
export function dropSharedRefusal(name: string): void {
  countersDict.delete(prefix + name);
}

/** @returns undefined: there is no refusal, or none that is still valid */
export function readSharedRefusal(name: string, version: number): LastKnown | undefined {
  const [text] = countersDict.get<string>(prefix + name);
  if (text === undefined) return undefined;
  const words = text.split(" ");
  if (tonumber(words[0]) !== version) return undefined;
  const limits: string[] = [];
  for (let i = 3; i < words.length; i++) limits.push(words[i] as string);
  return { atUs: tonumber(words[1]) as number, nothingUntilUs: tonumber(words[2]) as number, limits };
}
