// What the limiter alone is measured with: each algorithm under loads that take its different ways. Every limit has a rate
// that does not divide evenly, so that the exact arithmetic is paid for.
import type { Algorithm } from "../../limiter/src/algorithms/limit.ts";

export interface Case {
  /** Algorithm and load: what --only picks by. */
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly quota: number;
  readonly windowUs: number;
  /** Burst or precision, whichever the algorithm has; else 0. */
  readonly size: number;
  /** From one request to the next at the same counter, on average. */
  readonly gapUs: number;
  /** Of concurrency: how many slots are held before the oldest is given back. */
  readonly held?: "half" | "full";
}

const second = 1_000_000;
/** What spends the limit of 300 a second to a quarter, and what offers twice of it. */
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
  // A block of a millisecond: each request finds its block new, and mostly one to expire.
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

/** As the programs in Lua read it from their command line. */
export function argumentsOf({ algorithm, quota, windowUs, size, gapUs, held }: Case): string[] {
  return [algorithm, `${quota}`, `${windowUs}`, `${size}`, `${gapUs}`, held ?? "none"];
}
