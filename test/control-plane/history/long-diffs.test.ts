// What a diff of long documents costs: no piece of it keeps the only thread from others for long.

import { expect, it } from "vitest";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import { type Answer, perSecond, send } from "../../fixtures/servers/control-plane-under-test.ts";

/** The first answers are slower: V8 has not compiled the code yet. */
const times = 6;
const mostTurnMs = 25;

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

it.each([
  [
    "whose overrides were turned round",
    (k: number) => ({
      ...perSecond(1),
      key: ["header:x"],
      overrides: numbers(760).map((i) => ({ key: [`v${k === 1 ? 760 - i : i}`], limits: perSecond(5 + k).limits })),
    }),
  ],
  [
    "of which a few hundred lines were changed",
    (k: number) => ({
      ...perSecond(1),
      key: ["header:x"],
      overrides: numbers(760).map((i) => ({
        key: [`v${i}`],
        limits: perSecond(i % 8 === 0 ? 5 + k : 5).limits,
      })),
    }),
  ],
  [
    "with a thousand networks in another order",
    (k: number) => ({
      ...perSecond(1),
      key: ["ip"],
      exempt: {
        cidrs: numbers(1_000).map((i) => `10.${(i * (1 + 6 * k)) % 251}.${(i * (1 + 12 * k)) % 241}.${i % 256}`),
      },
    }),
  ],
])("the diff of a policy %s is computed in short pieces", async (_, make) => {
  const { url, longestTurnMs } = await startMeasuredProcess();
  const put = async (document: object) =>
    (await send(url, "PUT", "/apps/default/policies/p", { body: document })).body.revision;
  const [from, to] = [await put(make(0)), await put(make(1))];
  const turnsMs: number[] = [];
  for (let i = 0; i < times; i++) {
    await longestTurnMs();
    const { status, body } = await send(url, "GET", `/revisions/${from}/diff/${to}`, {});
    expect([status, body.changes.length]).toEqual([200, 1]);
    turnsMs.push(await longestTurnMs());
  }
  console.log(`longest turns: ${turnsMs.join(", ")} ms`);
  expect(Math.min(...turnsMs)).toBeLessThan(mostTurnMs);
});

it("the diff and the roll-back of megabytes of policies are read, computed and written in short pieces", async () => {
  const { url, longestTurnMs } = await startMeasuredProcess();
  const put = async (k: number) => {
    const cidrs = numbers(1_000).map((i) => `10.${(i >> 8) + 4 * k}.${i % 256}.0/24`);
    const lines = numbers(300).map((i) =>
      JSON.stringify({ ...perSecond(1), name: `p${i}`, key: ["ip"], exempt: { cidrs } }),
    );
    const sent = { text: lines.join("\n"), type: "application/jsonl" };
    return (await send(url, "PUT", "/apps/default/policies", sent)).body.revision;
  };
  const shortest = async (ask: () => Promise<Answer>) => {
    const turnsMs: number[] = [];
    for (let i = 0; i < times; i++) {
      await longestTurnMs();
      const { status, body } = await ask();
      expect([status, body.changes.length]).toEqual([200, 300]);
      turnsMs.push(await longestTurnMs());
    }
    console.log(`longest turns: ${turnsMs.join(", ")} ms`);
    return Math.min(...turnsMs);
  };
  const first = await put(0);
  expect(await shortest(() => send(url, "GET", `/revisions/0/diff/${first}`, {}))).toBeLessThan(mostTurnMs);
  await put(1);
  const rollBack = () => send(url, "POST", `/revisions/${first}/rollback?dryRun=true`, { body: { app: "default" } });
  expect(await shortest(rollBack)).toBeLessThan(mostTurnMs);
});
