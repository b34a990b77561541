// Decisions of the check API by caller: whose token asked, and what it heard. The numbers are kept by the token's hash, because two
// tokens may have one name, and a name may be any text.

import { addPending, flushedCount } from "./counts.ts";

/** Half of a SHA-256 in hex digits, which keeps keys short: LuaJIT hashes only a few bytes of long texts. */
const digits = 32;
const pattern = "^by:(%x+):%a+$";

export const callerResults = ["allowed", "refused"] as const;
export type CallerResult = (typeof callerResults)[number];

/** @returns the first half of a token's hash, which names its series */
export function shortHash(sha256: string): string {
  return sha256.slice(0, digits);
}

/** @param sha256 of the caller's token */
export function callerSeries(sha256: string, result: CallerResult): string {
  return `by:${shortHash(sha256)}:${result}`;
}

export function countCallersDecision(series: string): void {
  addPending(series, 1);
}

/** Returns what all workers have flushed. */
export function callersDecisions(sha256: string, result: CallerResult): number {
  return flushedCount(callerSeries(sha256, result));
}

/** @returns the first half of the hash of the token that has this series; undefined if the key belongs to another number */
export function callerOfSeries(key: string): string | undefined {
  return string.match(key, pattern)[0];
}
