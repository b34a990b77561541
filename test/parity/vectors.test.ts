// Plays the algorithms' vectors in every runtime, and compares what is reported and what is stored, number by number.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { type Build, build } from "./build.ts";
import { InNode, type Runtime, runtimeNames, startRuntime } from "./runtimes.ts";
import { expectationsOf, readVectors, reportedOf, traceOf, vectorFiles } from "./vectors.ts";

let built: Build;

beforeAll(async () => {
  await requireGatewayBuild();
  built = await build(undefined, runtimeNames);
});

afterAll(() => built?.remove());

for (const name of ["node", ...runtimeNames] as const) {
  describe(`in ${name}, a`, () => {
    let runtime: Runtime;

    beforeAll(async () => {
      runtime = name === "node" ? new InNode() : await startRuntime(name, built);
    });

    afterAll(() => runtime?.stop());

    for (const file of vectorFiles) {
      for (const vector of readVectors(file).vectors) {
        test(`${file}: ${vector.name}`, async () => {
          expect(reportedOf(vector, await runtime.replay(traceOf(vector)))).toEqual(expectationsOf(vector));
        });
      }
    }
  });
}
