// The cases with which the limiter alone is measured: each algorithm under loads that take its different branches. No limit's
// rate divides evenly, so that the measurement includes the cost of exact arithmetic.
import type { Algorithm } from "../../limiter/src/algorithms/limit.ts";

export interface Case {
  /** Algorithm and load; --only selects cases by this name. */
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly quota: number;
  readonly windowUs: number;
  /** Burst or precision, whichever the algorithm has; otherwise 0. */
  readonly size: number;
  /** The mean time from one request to the next at the same counter. */
  readonly gapUs: number;
  /** For concurrency: how many slots are held before the oldest is released. */
  readonly held?: "half" | "full";
}

const second = 1_000_000;
/** The first gap uses a quarter of the limit of 300 a second; the second offers twice the limit. */
const easyUs = 13_333;
const twiceUs = 1_667;

const bucket = { quota: 300, windowUs: second, size: 50 };
const window = { quota: 300, windowUs: second, size: 0 };
const blocks = { quota: 300, windowUs: second, size: second / 10 };
const slots = { quota: 100, windowUs: 60 * second, size: 0, gapUs: 20_000 };

export const cases: readonly Case[] = [
  ...loads("token-bucket", bucket),
  ...loads("leaky-bucket", bucket),
  ...loads("fixed-window", window),
  ...loads("sliding-window", blocks),
  // The block is a millisecond, so each request starts a new block, and mostly one block expires.
  { name: "sliding-window, many ticks", algorithm: "sliding-window", ...blocks, size: 1000, gapUs: 4000 },
  ...loads("sliding-log", window),
  { name: "concurrency, admitted", algorithm: "concurrency", ...slots, held: "half" },
  { name: "concurrency, half refused", algorithm: "concurrency", ...slots, held: "full" },
];

function loads(algorithm: Algorithm, limit: Pick<Case, "quota" | "windowUs" | "size">): Case[] {
  return [
    { name: `${algorithm}, admitted`, algorithm, ...limit, gapUs: easyUs },
    { name: `${algorithm}, half refused`, algorithm, ...limit, gapUs: twiceUs },
  ];
}

/** Returns the case as the Lua programs read it from their command line. */
export function argumentsOf({ algorithm, quota, windowUs, size, gapUs, held }: Case): string[] {
  return [algorithm, `${quota}`, `${windowUs}`, `${size}`, `${gapUs}`, held ?? "none"];
}
