// Two kinds of tests: those that need no other process to be quiet, and those that start the whole system, one file
// after the other, because they count what happens within a second.

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "units",
          include: ["test/{limiter,gateway,gateway-build,control-plane,parity,launch,docs,soak,fixtures}/**/*.test.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: "system",
          include: ["test/e2e/**/*.test.ts"],
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
