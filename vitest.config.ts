// Four kinds of tests, one kind after the other. Units compute: as many files at once as there are processors. Those of
// the system mostly wait, and have time: three files at once, each with servers of its own. Among them are those of databases:
// some of the system's again, each on a server for all files. Those of the clients build them and ask by them. Those that measure
// start the whole system and count what happens within a second, or measure how long something took: one file at a time.
//
// Files of a kind share processes: to start one and to load the control plane into it takes longer than most files do. A file
// therefore leaves nothing changed that is not its own.

import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Starts the system, and expects nothing of the clock but what repeats. */
const fuzzers = "test/fuzz/fuzz.test.ts";

/** Beside which all others of their kind find room. */
const longest = [
  "parity/parity",
  "control-plane/redis/redis",
  "control-plane/storage/crashes",
  "control-plane/storage/migrations",
  "control-plane/storage/racing-writes",
  "control-plane/storage/servers",
  "control-plane/storage/connections",
  "control-plane/storage/full-disk",
  "control-plane/push/passed-orders",
  "control-plane/push/several-control-planes",
  "control-plane/bodies/hostile-bodies",
  "fuzz/fuzz",
  "e2e/outages",
  "e2e/redis-cluster",
  "e2e/redis-name",
  "e2e/worked-cases",
  "e2e/response-bytes",
  "e2e/edited-under-load",
  "e2e/several-control-planes",
  "clients/outages",
  "clients/worked-cases",
  "rls/exactness",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => longest.some((name) => moduleId.endsWith(`/${name}.test.ts`));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

/** All programs that tests start, most of them many times, keep here what Node has compiled. */
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/node");

const setupFiles = ["test/fixtures/end-with-vitest.ts"];
const ofTheSystem = { testTimeout: 300_000, hookTimeout: 300_000, setupFiles, isolate: false };
const threeAtOnce = {
  // Each takes a quarter to two thirds of a processor, so three take two processors.
  maxWorkers: Math.max(3, Math.ceil(1.5 * availableParallelism())),
  sequence: { groupOrder: 1 },
};

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "units",
          include: [
            "test/{architecture,limiter,gateway,gateway-build,parity,launch,deltas,docs,bench,soak,fixtures,fuzz,console}/**/*.test.ts",
          ],
          exclude: [fuzzers],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          setupFiles,
          isolate: false,
          maxWorkers: Math.max(2, availableParallelism()),
        },
      },
      {
        test: {
          ...ofTheSystem,
          ...threeAtOnce,
          name: "system",
          include: ["test/{control-plane,browser}/**/*.test.ts", "test/e2e/*.test.ts", fuzzers],
        },
      },
      ...["mariadb", "postgres"].map((database) => ({
        test: {
          ...ofTheSystem,
          ...threeAtOnce,
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
          ...ofTheSystem,
          name: "clients",
          include: ["test/{clients,rls}/**/*.test.ts"],
          maxWorkers: Math.max(2, availableParallelism()),
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...ofTheSystem,
          name: "measured",
          include: ["test/e2e/measured/*.test.ts"],
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
