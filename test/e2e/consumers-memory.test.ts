// The memory for consumers that nginx.conf declares holds as many consumers as the control plane lets apps have.

import { expect, it } from "vitest";
import { boundsOf, mostConsumers } from "../../control-plane/src/bounds/bounds.ts";
import { lineOfConsumer, mostIdBytes } from "../../limiter/src/protocol/consumer-lines.ts";
import { writeConsumerLog } from "../fixtures/documents/consumer-log.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const usual = boundsOf("shop", undefined, { policies: 1, steps: 1, snapshotBytes: 1 });

it("takes what the docs say for each consumer, by the bytes of its name and its terms", async () => {
  const gateway = await LoneGateway.start({ policies: [] });
  const count = 2_000;
  const pageBytes = 4096;
  try {
    const free = () => gateway.metric("sluice_consumers_free_bytes");
    const freeBefore = await free();
    const taken: [number, number][] = [];
    for (const bytes of [60, 61, 188, 189, 1_980, 1_981, 4_028, 4_029]) {
      await gateway.restart(() =>
        writeConsumerLog(gateway.snapshotDir, count, (number) =>
          lineOfConsumer("shop", String(number).padStart(20, "i"), "p".repeat(bytes - 25), undefined),
        ),
      );
      expect(await gateway.metric("sluice_consumers")).toBe(count);
      taken.push([bytes, Math.round((freeBefore - (await free()) - pageBytes) / count)]);
    }
    const [small, medium, large, page] = [128, 256, 512, pageBytes];
    expect(taken.map(([bytes, each]) => [bytes, 2 ** Math.round(Math.log2(each))])).toEqual([
      [60, small],
      [61, medium],
      [188, medium],
      [189, large],
      [1_980, page / 2],
      [1_981, page],
      [4_028, page],
      [4_029, 2 * page],
    ]);
  } finally {
    await gateway.stop();
  }
});

it.each([
  ["of all apps, with ids and plans of usual lengths", mostConsumers, "default", 16, 10],
  ["of an app, with the longest ids and names of apps and plans", usual.consumers, "a".repeat(63), mostIdBytes, 63],
])("holds the bound %s", async (_, count, app, idBytes, planBytes) => {
  const gateway = await LoneGateway.start({ policies: [] });
  try {
    const plan = "p".repeat(planBytes);
    const capacity = await gateway.metric("sluice_consumers_capacity_bytes");
    await gateway.restart(() =>
      writeConsumerLog(gateway.snapshotDir, count, (number) =>
        lineOfConsumer(app, String(number).padStart(idBytes, "i"), plan, undefined),
      ),
    );
    expect(await gateway.metric("sluice_consumers")).toBe(count);
    expect(await gateway.metric("sluice_consumers_unstored")).toBe(0);
    // An app that comes later finds room, too.
    expect(await gateway.metric("sluice_consumers_free_bytes")).toBeGreaterThan(capacity / 8);
  } finally {
    await gateway.stop();
  }
});
