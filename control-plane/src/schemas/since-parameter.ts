// A time from which on something is asked for: a moment, or a duration before now.

import { parseDuration } from "@sluice/limiter/document/duration.ts";
import { ApiError } from "../errors/api-error.ts";
import { parseTime } from "./time.ts";

const expected = 'a time like "2026-11-23T12:00:00Z", or a duration before now like "15m"';

export const sinceParameter = {
  type: "string",
  maxLength: 40,
  default: "15m",
  description: "Return what happened from this time on, or within this duration before now.",
  "x-expected": `${expected}, once`,
  examples: ["15m"],
} as const;

/** @returns ms since 1970 @throws ApiError invalid-request */
export function readSince(text: string, nowMs: number): number {
  const durationUs = parseDuration(text);
  // A duration may reach beyond what a date can say.
  if (durationUs !== undefined) return Math.max(0, nowMs - durationUs / 1_000);
  const atMs = parseTime(text);
  if (atMs !== undefined) return atMs;
  const problem = { path: "since", expected, got: JSON.stringify(text) };
  throw new ApiError("invalid-request", `since: expected ${expected}, got ${problem.got}.`, { errors: [problem] });
}
