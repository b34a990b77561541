// The memory for consumers that nginx.conf declares holds as many consumers as the control plane lets apps have.

import { createHash } from "node:crypto";
import { chownSync, closeSync, openSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { boundsOf, mostConsumers } from "../../control-plane/src/bounds/bounds.ts";
import { lineOfConsumer, mostIdBytes } from "../../limiter/src/protocol/consumer-lines.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const usual = boundsOf("shop", undefined, { policies: 1, steps: 1, snapshotBytes: 1 });

/** As a gateway keeps them on its disk. */
function writeLog(directory: string, count: number, line: (number: number) => string): void {
  const path = join(directory, "consumers.log");
  const file = openSync(path, "w", 0o600);
  const atOnce = 2_000;
  for (let from = 0; from < count; from += atOnce) {
    const to = Math.min(from + atOnce, count);
    const lines = Array.from({ length: to - from }, (_, i) => line(from + i)).join("");
    const sha256 = createHash("sha256").update(`lone ${from} ${to}\n${lines}`).digest("hex");
    const head = JSON.stringify({ epoch: "lone", from, to, bytes: Buffer.byteLength(lines), sha256 });
    writeSync(file, `${head.padEnd(383)}\n${lines}`);
  }
  closeSync(file);
  const { uid, gid } = statSync(directory);
  chownSync(path, uid, gid);
}

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
        writeLog(gateway.snapshotDir, count, (number) =>
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
      writeLog(gateway.snapshotDir, count, (number) =>
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
