// Debts of counters in this nginx's shared memory: see limiter/src/algorithms/deferred-charge.ts. A debt is a cell of its own whose key
// begins with "debt:". Its value is a text, "1700000120000000 1700000000000000 5": paidAtUs, sinceUs and quota.

import {
  type Debt,
  isAhead,
  movesWithClock,
  standsFromUs,
} from "../../../../limiter/src/algorithms/deferred-charge.ts";
import type { CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { countersDict, lifeSecondsOf, overflowDict } from "../../runtime/shared-memory.ts";
import { type CellCounter, dictOf, slabOfCell, storeCell, storeShared } from "./counter-cells.ts";
import { isCalm, takeFromReserve } from "./counter-memory.ts";

/** No counter's key has ":" among its first 16 characters. */
const debtPrefix = "debt:";
const debt: Debt = { paidAtUs: 0, sinceUs: 0, quota: 1 };

/** Returns the debt beside the counter; undefined: it has none. @returns work space: read it before the next call */
export function debtOf(counter: CellCounter): Debt | undefined {
  const stored = storedDebt(counter);
  if (stored === undefined) return undefined;
  const [paidAtUs, sinceUs, quota] = string.match(stored, "^(%d+) (%d+) (%d+)$");
  debt.paidAtUs = tonumber(paidAtUs) as number;
  debt.sinceUs = tonumber(sinceUs) as number;
  debt.quota = tonumber(quota) as number;
  return debt;
}

/**
 * Returns for how long a loaded counter owes units, in µs: it admits nothing until then. Its debt is read only if the counter is ahead of the
 * clock.
 *
 * @param policy whose debt is saved if it moves with a clock that stepped back; undefined: it is not
 */
export function unpaidOnNode(counter: CellCounter, now: number, policy: CompiledPolicy | undefined): number {
  const { rate } = counter;
  if (!isAhead(rate, counter, now)) return 0;
  const known = debtOf(counter);
  if (known === undefined) return 0;
  const fromUs = standsFromUs(rate, known, now);
  if (policy !== undefined && movesWithClock(rate, known, now)) keepDebt(policy, counter, fromUs, now);
  return fromUs - now;
}

/** Stores the debt of the counter as one that was made now. @returns false: there is no memory for it */
export function keepDebt(policy: CompiledPolicy, counter: CellCounter, paidAtUs: number, now: number): boolean {
  const text = string.format("%.0f %.0f %.0f", paidAtUs, now, counter.rate.quota);
  const key = debtPrefix + counter.key;
  const lifeSeconds = lifeSecondsOf(paidAtUs - now);
  if (!counter.shared && mayKeep(policy, key, text, lifeSeconds) && storeCell(key, text, lifeSeconds, 0)) return true;
  return storeShared(key, text, lifeSeconds, 0);
}

/** @param key of the counter's own cell */
export function forgetDebt(key: string): void {
  countersDict.delete(debtPrefix + key);
  overflowDict.delete(debtPrefix + key);
}

/** A debt that found no room beside its counter is in the overflow. */
function storedDebt(counter: CellCounter): string | undefined {
  const key = debtPrefix + counter.key;
  const [stored] = dictOf(counter).get<string>(key);
  if (stored !== undefined || counter.shared || isCalm()) return stored;
  return overflowDict.get<string>(key)[0];
}

/** For a debt beside its counter: while memory is scarce, a policy takes no more of it with debts than with counters. */
function mayKeep({ counterPrefix }: CompiledPolicy, key: string, text: string, lifeSeconds: number): boolean {
  if (isCalm() || countersDict.get(key)[0] !== undefined) return true;
  return takeFromReserve(counterPrefix, slabOfCell(key, text.length), lifeSeconds);
}
