// The tests that mutants of limiter/ are held against: the exact ones of the limiter, and the vectors. Properties stay out:
// they are slow where nothing is wrong, and what they find depends on chance. So do the worlds of leases, which also break lines of the
// source that a mutated one has not. Stryker starts this in a copy of the project.

import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** A mutant that one test notices is done with: those that take long come last. */
class QuickFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isSlow = ({ moduleId }: TestSpecification) =>
      /(policy-index|validate-policy|counter-key)\.test/.test(moduleId);
    return [...files.filter((file) => !isSlow(file)), ...files.filter(isSlow)];
  }
}

export default defineConfig({
  test: {
    include: ["test/limiter/**/*.test.ts", "test/parity/node.test.ts"],
    exclude: ["**/*-properties.test.ts", "**/long-run-rate.test.ts", "**/lease-model.test.ts"],
    isolate: false,
    fileParallelism: false,
    sequence: { sequencer: QuickFirst },
    env: { SLUICE_TEST_SLOWNESS: "20" },
    // The first run is instrumented, and may run beside other work.
    testTimeout: 300_000,
  },
});
