// The warnings of a consumer cost little, in an app with as many large policies as it may have, and in one with thousands of policies.

import { expect, it } from "vitest";
import { median } from "../../../bench/statistics.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import { send, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

/** Garbage collections count, too. */
const mostTurnMs = 30;
/** More than in an app without policies. */
const mostMoreMs = 5;

const items = <Item>(count: number, item: (i: number) => Item) => Array.from({ length: count }, (_, i) => item(i));
const limit = (i: number, window = "1m") => ({ name: `l${i}`, algorithm: "fixed-window", quota: 9, window });
const plans = Object.fromEntries(items(32, (i) => [`plan${i}`, items(16, (j) => limit(j))]));
const large = { key: ["header:x-id"], planBy: "consumer", defaultPlan: "plan0", plans };
/** Its limits have another window than those of the plans, so that there is a warning for each of the 32 policies. */
const consumer = {
  plan: "nope",
  overrides: Object.fromEntries(items(32, (i) => [`p${i}`, [limit(3, "1h")]])),
};
const at = "/apps/shop";

type Call = (method: string, path: string, body: unknown) => ReturnType<typeof send>;

async function fillShop(call: Call): Promise<void> {
  await call("PUT", at, {});
  for (let i = 0; i < 32; i++) expect((await call("PUT", `${at}/policies/p${i}`, large)).status).toBe(201);
}

it("nobody waits for long while the policies that a consumer names are read, for one or for many at once", async () => {
  const { url, longestTurnMs } = await startMeasuredProcess();
  const call: Call = (method, path, body) => send(url, method, path, { body });
  await fillShop(call);
  const turnsMs: number[] = [];
  for (let k = 0; k < 5; k++) {
    // The history goes on, so that the policies are read again.
    await call("PUT", `${at}/policies/p0`, { ...large, description: `${k}` });
    await longestTurnMs();
    const puts = await Promise.all(items(8, (i) => call("PUT", `${at}/consumers/c${i}?strict=true`, consumer)));
    for (const { status } of puts) expect(status).toBe(400);
    turnsMs.push(await longestTurnMs());
  }
  console.log(`longest turns: ${turnsMs.join(", ")} ms`);
  expect(turnsMs.sort((a, b) => a - b)[2]).toBeLessThan(mostTurnMs);
});

it.each([
  ["32 policies of 32 plans", fillShop, consumer, 33],
  ["5,000 policies without plans", fillWithMany, { plan: "pro" }, 1],
] as const)("beside %s, the next PUT of a consumer costs a few milliseconds", async (_, fill, terms, warnings) => {
  const { url } = await startControlPlane();
  const call: Call = (method, path, body) => send(url, method, path, { body });
  await fill(call, url);
  await call("PUT", "/apps/empty", {});
  const costMs = async (path: string, k: number) => {
    const beganMs = processorMs();
    const { body } = await call("PUT", path, { ...terms, plan: `plan-${k}` });
    expect(body.warnings).toHaveLength(warnings);
    return processorMs() - beganMs;
  };
  const moreMs: number[] = [];
  for (let k = 0; k < 15; k++) {
    moreMs.push((await costMs(`${at}/consumers/ann`, k)) - (await costMs("/apps/empty/consumers/ann", k)));
  }
  console.log(`more: ${moreMs.map((ms) => ms.toFixed(1)).join(", ")} ms`);
  expect(median(moreMs)).toBeLessThan(mostMoreMs);
});

async function fillWithMany(call: Call, url: string): Promise<void> {
  await call("PUT", at, { bounds: { policies: 5_000, bytes: 16_000_000, limits: 5_000 } });
  const limits = [{ algorithm: "fixed-window", quota: 1, window: "1s" }];
  const policy = (i: number) => JSON.stringify({ name: `p${i}`, description: "d".repeat(1_900), limits });
  const text = items(5_000, policy).join("\n");
  const { status } = await send(url, "PUT", `${at}/policies`, { text, type: "application/jsonl" });
  expect(status).toBe(200);
}
