// Deliberate breaks of one line each, which show that the runner finds what it must find. Node keeps the line as it is, and
// every other runtime gets the broken one.

import type { RuntimeName } from "./runtimes.ts";

export interface Break {
  readonly name: string;
  readonly file: string;
  /** This text must occur once in the file. */
  readonly line: string;
  readonly becomes: string;
  /** The algorithm whose traces show it. */
  readonly algorithm: string;
  /** The runtimes that show it; absent: all. */
  readonly runtimes?: readonly RuntimeName[];
}

const algorithms = "limiter/src/algorithms";

export const breaks: readonly Break[] = [
  {
    name: "sliding-window: > becomes >=",
    file: `${algorithms}/sliding-window.ts`,
    line: "while (live < state.length && age(state, ring, live, tick) > limit.ticks) {",
    becomes: "while (live < state.length && age(state, ring, live, tick) >= limit.ticks) {",
    algorithm: "sliding-window",
  },
  {
    name: "sliding-log: an entry expires a tick too early",
    file: `${algorithms}/sliding-window.ts`,
    line: "if (age(state, ring, 0, tick) <= limit.ticks) return;",
    becomes: "if (age(state, ring, 0, tick) < limit.ticks) return;",
    algorithm: "sliding-log",
  },
  {
    name: "token-bucket: <= becomes <",
    file: `${algorithms}/token-bucket.ts`,
    line: "(aheadUs === bucket.fullUs && rest <= bucket.fullRest)",
    becomes: "(aheadUs === bucket.fullUs && rest < bucket.fullRest)",
    algorithm: "token-bucket",
  },
  {
    name: "fixed-window: a step back begins anew",
    file: `${algorithms}/fixed-window.ts`,
    line: "      state.atUs = startUs;\n",
    becomes: "      state.atUs = startUs;\n      used = 0;\n",
    algorithm: "fixed-window",
  },
  {
    name: "leaky-bucket: a started µs is not waited for",
    file: `${algorithms}/leaky-bucket.ts`,
    line: "Math.ceil((state.nextCount - own.remainder) / bucket.quota)",
    becomes: "Math.floor((state.nextCount - own.remainder) / bucket.quota)",
    algorithm: "leaky-bucket",
  },
  {
    name: "concurrency: a renewal keeps the old slots",
    file: `${algorithms}/concurrency.ts`,
    line: "= refundSliding(limit, state, ring, heldAtUs, slots);\n",
    becomes: "= refundSliding(limit, state, ring, heldAtUs, 0);\n",
    algorithm: "concurrency",
  },
  {
    name: "sliding-log: a lifetime may be 0",
    file: `${algorithms}/sliding-window.ts`,
    line: "return Math.max(state.atUs + (limit.ticks + 2) * limit.tickUs - nowUs, 1);",
    becomes: "return state.atUs + (limit.ticks + 2) * limit.tickUs - nowUs;",
    algorithm: "sliding-log",
    // The memory player forgets nothing, so it does not show this.
    runtimes: ["lua5.1", "redis", "nginx"],
  },
];
