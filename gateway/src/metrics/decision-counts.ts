// What a worker counts of one policy until it is flushed and reported. By far the most requests write here and nowhere else, and with
// ten thousand policies each piece of it would come from main memory. So it is a list, which LuaJIT keeps in one piece, and while
// all admitted requests have the same key, that key is in it instead of in a summary.

import type { KeyCounts } from "../../../limiter/src/sketch/key-counts.ts";

export type DecisionCounts = [
  allowed: number,
  isPending: boolean,
  soleKey: string,
  soleCount: number,
  admittedKeys: KeyCounts | false,
  refused: number,
  shadowRefused: number,
  degraded: number,
  delayed: number,
  refusedKeys: KeyCounts | false,
  hasCountedKeys: boolean,
  refusedByLimit: Record<string, number> | false,
];

/** Decisions since the counts were last flushed. */
export const allowed = 0;
export const refused = 5;
export const shadowRefused = 6;
export const degraded = 7;
export const delayed = 8;
/** True if the policy is among those whose counts wait to be flushed. */
export const isPending = 1;
/** The key of all admitted requests since keys were last reported. Empty: there are none, or `admittedKeys` has them. */
export const soleKey = 2;
/** How often it came. */
export const soleCount = 3;
/** False: no two keys were admitted. */
export const admittedKeys = 4;
/** In shadow mode, of the requests that would have been refused. False: there were none. */
export const refusedKeys = 9;
/** True if the policy is among those whose keys wait to be reported. */
export const hasCountedKeys = 10;

/** Requests since the counts were last flushed that were refused, by the name of the limit that their answers name. False: there were none. */
export const refusedByLimit = 11;

export function newDecisionCounts(): DecisionCounts {
  return [0, false, "", 0, false, 0, 0, 0, 0, false, false, false];
}
