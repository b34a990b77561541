// Counters of the overflow that consist only of a moment and a count are packed, some fifty in one entry of its dict. Each takes
// 18 bytes there instead of 128, so there are seven times as many cells, and as many fewer keys share one.
//
//   8 bytes: when the page ends, in µs since the epoch; then for each counter 8 bytes for its moment and 8 bytes for its count
//
// If workers must agree, the writer of a page holds its lock.

import type { Rate } from "../../../../limiter/src/algorithms/rate.ts";
import { nowUs } from "../../runtime/clock.ts";
import { ffi } from "../../runtime/packed-memory.ts";
import { lifeSecondsOf, overflowDict } from "../../runtime/shared-memory.ts";

interface State {
  atUs: number;
  count: number;
}

/** Chosen so that a page, with its key and nginx's overhead, fills a slab of 1024 bytes. */
export const statesPerPage = 57;
export const pageBytes = 1024;
const numbers = 1 + 2 * statesPerPage;
const bytes = 8 * numbers;

/** A page without any counts. */
export const emptyPage = string.rep("\0", bytes);

/** Work space: what is read here is written before anything yields. */
const page = ffi.new("double[?]", numbers);

/** @returns false if nothing counts there any more; the state is then that of a counter that was never used */
export function loadPacked(state: State, rate: Rate, key: string, slot: number, now: number): boolean {
  takePage(key);
  state.atUs = page.get(1 + 2 * slot);
  state.count = page.get(2 + 2 * slot);
  if (isCounting(state, rate, now)) return true;
  state.atUs = 0;
  state.count = 0;
  return false;
}

/** @returns false: there is no memory for the page */
export function savePacked({ atUs, count }: State, key: string, slot: number, lifeUs: number): boolean {
  const now = nowUs();
  takePage(key);
  const endsAtUs = math.max(page.get(0), now + lifeUs);
  page.set(0, endsAtUs);
  page.set(1 + 2 * slot, atUs);
  page.set(2 + 2 * slot, count);
  return overflowDict.safe_set(key, ffi.string(page, bytes), lifeSecondsOf(endsAtUs - now))[0] === true;
}

/** Returns whether a cell of its own would still be kept for this state: a state that has run out counts as never used. */
function isCounting({ atUs, count }: State, rate: Rate, now: number): boolean {
  // The window of a lifetime begins at 0.
  if (atUs === 0 && count === 0) return false;
  const isWindow = rate.algorithm === "fixed-window" || rate.algorithm === "calendar-window";
  return isWindow ? now < atUs + 2 * rate.windowUs : now <= atUs;
}

function takePage(key: string): void {
  const [stored] = overflowDict.get<string>(key);
  if (stored === undefined) ffi.fill(page, bytes);
  else ffi.copy(page, stored, math.min(stored.length, bytes));
}
