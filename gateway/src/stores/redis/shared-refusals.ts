// Refusals by Redis that one worker received, shared with all workers of this nginx. They are read only if Redis does not decide:
// then a limit that is used up has nothing left, whichever worker handles the request, and also after a reload. Plans, and limits from
// before an edit, may share its counter: those that are larger may have units left.

import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import { slabOfCell } from "../node/counter-cells.ts";
import { isCalm, takeFromReserve } from "../node/counter-memory.ts";
import { whole } from "./script-arguments.ts";

const prefix = "heard:";
/** A share that starts empty has refilled after a window; refusals of limits with longer windows are kept for a day. */
const longestSeconds = 86_400;

/** A limit that was used up. */
interface UsedUpLimit {
  readonly counter: string;
  readonly quota: number;
  readonly capacity: number;
}

interface SharedRefusal {
  readonly atUs: number;
  readonly nothingUntilUs: number;
  readonly limits: readonly UsedUpLimit[];
}

/**
 * @param policy that refused: while memory is scarce, its refusals and counters share one limit of memory
 * @param name the key of the policy's first counter
 * @param version of operators' changes: refusals with an earlier version are void
 * @param untilSeconds since the epoch: then the refused request may be allowed
 */
export function shareRefusal(
  policy: CompiledPolicy,
  name: string,
  version: number,
  { atUs, nothingUntilUs, limits: names = [] }: LastKnown,
  untilSeconds: number,
): void {
  const seconds = math.min(untilSeconds - wallSeconds(), longestSeconds);
  if (seconds <= 0) return;
  const limits = policy.limits.filter((limit) => names.includes(limit.name)).map((limit) => usedUp(limit));
  const before = read(name, version);
  // A client of a larger plan would begin anew because it is refused by a smaller one, too.
  if (before !== undefined && isOfLarger(before, limits)) {
    if (before.nothingUntilUs >= math.min(nothingUntilUs, wallSeconds() * 1_000_000)) return;
  }
  const key = prefix + name;
  let text = `${version} ${whole(atUs)} ${whole(nothingUntilUs)}`;
  for (const limit of limits) text += ` ${limit.counter} ${whole(limit.quota)} ${whole(limit.capacity)}`;
  const lifeSeconds = math.ceil(seconds);
  // A spray of keys is refused with each of them: no counters of other policies, and no new counters, may lose memory to that.
  if (!isCalm() && countersDict.get(key)[0] === undefined) {
    if (!takeFromReserve(policy.counterPrefix, slabOfCell(key, text.length), lifeSeconds)) return;
  }
  countersDict.safe_set(key, text, lifeSeconds);
}

/** Called when the key has units after all. */
export function dropSharedRefusal(name: string): void {
  countersDict.delete(prefix + name);
}

/**
 * Returns what is known of those limits of the policy that are no larger than the ones that were used up.
 *
 * @returns undefined: there is no refusal, none that is still valid, or none of such limits
 */
export function readSharedRefusal(policy: CompiledPolicy, name: string, version: number): LastKnown | undefined {
  const refusal = read(name, version);
  if (refusal === undefined) return undefined;
  const { atUs, nothingUntilUs } = refusal;
  const limits: string[] = [];
  for (const limit of policy.limits) {
    const own = usedUp(limit);
    if (refusal.limits.some((other) => isAsLarge(other, own))) limits.push(limit.name);
  }
  return limits.length === 0 ? undefined : { atUs, nothingUntilUs, limits };
}

function read(name: string, version: number): SharedRefusal | undefined {
  const [text] = countersDict.get<string>(prefix + name);
  if (text === undefined) return undefined;
  const words = text.split(" ");
  if (tonumber(words[0]) !== version) return undefined;
  const limits: UsedUpLimit[] = [];
  for (let i = 3; i < words.length; i += 3) {
    // None of this if an earlier version of Sluice has written it.
    const [quota, capacity] = [tonumber(words[i + 1]) ?? 0, tonumber(words[i + 2]) ?? 0];
    limits.push({ counter: words[i] as string, quota, capacity });
  }
  return { atUs: tonumber(words[1]) as number, nothingUntilUs: tonumber(words[2]) as number, limits };
}

function usedUp({ counterSuffix, rate }: CompiledLimit): UsedUpLimit {
  return { counter: counterSuffix, quota: rate.quota, capacity: capacity(rate) };
}

/** Returns whether the one has no units if the other has none. */
function isAsLarge(one: UsedUpLimit, other: UsedUpLimit): boolean {
  return one.counter === other.counter && one.quota >= other.quota && one.capacity >= other.capacity;
}

/** Returns whether a refusal has all of these limits, and at least one of them larger. */
function isOfLarger({ limits }: SharedRefusal, others: readonly UsedUpLimit[]): boolean {
  let isLarger = false;
  for (const other of others) {
    const one = limits.find((each) => isAsLarge(each, other));
    if (one === undefined) return false;
    if (!isAsLarge(other, one)) isLarger = true;
  }
  return isLarger;
}
