// Measures the longest lists of networks: no piece of the work keeps the only thread from others for long.

import { expect, it } from "vitest";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import { send } from "../../fixtures/servers/control-plane-under-test.ts";

const mostTurnMs = 50;

/** Different networks in no order. */
const list = (count: number, network: (n: number) => string) =>
  Array.from({ length: count }, (_, i) => network((i * 7_919) % count)).join("\n");
const ofV4 = (n: number) => `${1 + (n % 200)}.${Math.floor(n / 200) % 250}.${Math.floor(n / 50_000)}.0/24`;
const ofV6 = (n: number) => `2001:db8:${n.toString(16)}::/64`;

async function start() {
  const { url, longestTurnMs } = await startMeasuredProcess();
  await send(url, "PUT", "/apps/shop", { body: {} });
  /** The process counts the time of garbage collections too, so the shortest of several longest turns is what the work needs. */
  const shortest = async (act: (k: number) => Promise<void>) => {
    const turnsMs: number[] = [];
    for (let k = 0; k < 4; k++) {
      await longestTurnMs();
      await act(k);
      turnsMs.push(await longestTurnMs());
    }
    console.log(`longest turns: ${turnsMs.join(", ")} ms`);
    return Math.min(...turnsMs);
  };
  const put = (text: string) => send(url, "PUT", "/apps/shop/networks/big", { text, type: "text/plain" });
  return { put, shortest };
}

it("a list that is too long is refused at the first network that is too many, in short pieces", async () => {
  const { put, shortest } = await start();
  const text = list(500_000, (n) => ofV4(n).replace(/\/24$/, "")).slice(0, 8 * 1024 * 1024);
  const refused = await shortest(async () => {
    const { status, body } = await put(text);
    expect([status, body.errors]).toEqual([400, [{ path: "", expected: "at most 100000 networks", got: "more" }]]);
  });
  expect(refused).toBeLessThan(mostTurnMs);
});

it.each([
  ["IPv4", list(100_000, ofV4)],
  ["IPv6", list(32_000, ofV6)],
])(
  "the longest list of %s that an app may have is sorted, compared with the one before and stored in short pieces",
  async (_, text) => {
    const { put, shortest } = await start();
    expect((await put(text)).status).toBe(201);
    const changed = await shortest(async (k) => {
      expect((await put(text.replace(/^.*\n/, `9.9.9.${k}\n`))).status).toBe(200);
    });
    expect(changed).toBeLessThan(mostTurnMs);
  },
);
