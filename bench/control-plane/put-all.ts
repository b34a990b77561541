// Measures how long it takes until many policies, which an admin puts into an empty control plane, are in force.
import { join } from "node:path";
import { say } from "../../launch/step.mjs";
import { memoryOf } from "../measured-gateway.ts";
import { waitFor } from "./edits.ts";
import { documentOf, nameOf } from "./fill.ts";
import { Site } from "./site.ts";
import { type Bench, realGateway, untilLoaded } from "./surroundings.ts";

export interface PutAll {
  readonly policies: number;
  /** One request for all of them, or one for each. */
  readonly by: "one request" | "one request each";
  /** From the first request until every worker of the gateway had all. */
  readonly inForceMs: number;
  readonly controlPlanePeakMB: number;
}

const tellEvery = 1_000;

export async function putAll(bench: Bench, policies: number): Promise<PutAll> {
  const directory = join(bench.processes.directory, `put-${policies}`);
  const site = await Site.start(bench.processes, join(directory, "site"), undefined);
  const gateway = await realGateway(bench, site.url, join(directory, "gateway"));
  const type = await site.typeOfMany();
  const beganAtMs = performance.now();
  if (type === undefined) {
    for (let i = 0; i < policies; i++) {
      if (i > 0 && i % tellEvery === 0) say(`${i} of ${policies} put`);
      await site.put(nameOf(i), documentOf(i), i === policies - 1 ? waitFor : undefined);
    }
  } else {
    const documents = Array.from({ length: policies }, (_, i) => documentOf(i));
    await site.putMany(documents, type, waitFor);
  }
  await untilLoaded(gateway, policies);
  const inForceMs = performance.now() - beganAtMs;
  const { peakMB } = memoryOf([site.pid]);
  await gateway.stop();
  await site.stop();
  const by = type === undefined ? "one request each" : "one request";
  return { policies, by, inForceMs, controlPlanePeakMB: peakMB };
}
