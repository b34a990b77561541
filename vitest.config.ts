// Five kinds of tests, one kind after the other. Units compute: as many files at once as there are processors. Those of
// the system mostly wait, and have time: four files at once, each with servers of its own. Among them are those of databases:
// some of the system's again, each on a server for all files. Those of the clients build them and ask by them. Those that measure
// start the whole system and count what happens within a second, or measure how long something took: two files at once, because
// what they show holds on a busy machine too.
//
// Files of a kind share processes: to start one and to load the control plane into it takes longer than most files do. A file
// therefore leaves nothing changed that is not its own.

import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { durationKey, keptDurations } from "./test/runner/durations.ts";

/** Starts the system, and expects nothing of the clock but what repeats. */
const fuzzers = "test/fuzz/fuzz.test.ts";

/**
 * The longest first: beside them all others of their kind find room. A process is used again only if the next file is of the same project, so
 * projects do not alternate.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations = keptDurations();
    const secondsOf = ({ project, moduleId }: TestSpecification) =>
      durations[durationKey(project.name, relative(import.meta.dirname, moduleId))] ?? 0;
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => a.project.name.localeCompare(b.project.name) || secondsOf(b) - secondsOf(a));
  }
}

/** All programs that tests start, most of them many times, keep here what Node has compiled. */
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/node");

const setupFiles = ["test/fixtures/end-with-vitest.ts"];
/** All have much more time than what a test waits for (test/fixtures/until.ts). */
const everywhere = { testTimeout: 300_000, hookTimeout: 300_000, setupFiles, isolate: false };
const ofTheSystem = {
  // Each takes a quarter to a half of a processor, so four take two processors.
  maxWorkers: Math.max(4, 2 * availableParallelism()),
  sequence: { groupOrder: 1 },
};

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    // Node loads TypeScript itself. Vite would transform each file for each process: that is a tenth of the processor time.
    experimental: { viteModuleRunner: false },
    projects: [
      {
        test: {
          name: "units",
          include: [
            "test/{architecture,limiter,gateway,gateway-build,oracle,parity,launch,deltas,docs,bench,soak,fixtures,fuzz,console,runner}/**/*.test.ts",
          ],
          exclude: [fuzzers],
          ...everywhere,
          maxWorkers: Math.max(2, availableParallelism()),
        },
      },
      {
        test: {
          ...everywhere,
          ...ofTheSystem,
          name: "system",
          include: ["test/{control-plane,browser,spellings}/**/*.test.ts", "test/e2e/*.test.ts", fuzzers],
        },
      },
      ...["mariadb", "postgres"].map((database) => ({
        test: {
          ...everywhere,
          ...ofTheSystem,
          name: `on ${database}`,
          // What SQLite's tests show of the API, on a server.
          include: ["test/control-plane/{routes,tokens}/*.test.ts"],
          // Counters are not stored in the database.
          exclude: ["test/control-plane/routes/counters.test.ts"],
          env: { SLUICE_TEST_DATABASE: database },
          globalSetup: "test/fixtures/servers/shared-database.ts",
        },
      })),
      {
        // They compile Go and Java and ask as fast as they can, beside which the others would have too little of the processors.
        test: {
          ...everywhere,
          name: "clients",
          include: ["test/{clients,rls}/**/*.test.ts"],
          maxWorkers: Math.max(3, availableParallelism()),
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...everywhere,
          name: "measured",
          include: ["test/e2e/measured/*.test.ts"],
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
