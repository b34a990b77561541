// More keys come than the memory holds, all under one policy.

import { runSpray } from "../spray/scenario.ts";
import type { Fault } from "./fault.ts";

const countersMb = 8;
const bytesPerCounter = 128;

const keySpray: Fault = {
  number: 14,
  name: "dict of counters full, key spray of 10 × its size",
  async run(stack) {
    const { facts } = await runSpray(stack, {
      keys: (10 * countersMb * 2 ** 20) / bytesPerCounter,
      countersMb,
      overflowMb: 2,
      workers: 2,
      limit: { algorithm: "fixed-window", quota: 3, window: "1d" },
    });
    return { facts, recoveredAfterMs: undefined, windows: [] };
  },
};

export const faults = [keySpray];
