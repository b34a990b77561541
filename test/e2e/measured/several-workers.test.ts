// Several nginx workers share one count: together they admit what one would. test/gateway/stores/node/node-store_spec.lua plays this with
// interruptions at every access to shared memory; processes that really run at the same time do it here.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, askAtOnce } from "../../fixtures/clients/requests.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { childrenOf } from "../../fixtures/servers/system.ts";
import { untilPasses } from "../../fixtures/until.ts";

const windowMs = 2000;
const window = `${windowMs}ms`;
const policies = [
  {
    name: "hundred",
    match: { paths: ["/hundred"] },
    limits: [{ algorithm: "fixed-window", quota: 100, window }],
  },
  {
    name: "bucket",
    match: { paths: ["/bucket"] },
    limits: [{ algorithm: "token-bucket", quota: 50, window: "1s", burst: 50 }],
  },
  {
    name: "pair",
    match: { paths: ["/pair"] },
    key: ["header:x-key"],
    limits: [
      { name: "few", algorithm: "fixed-window", quota: 30, window },
      { name: "many", algorithm: "token-bucket", quota: 1, window: "1d", burst: 50 },
    ],
  },
];

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    workers: 4,
    policies,
    edit: (config) => config.replace("proxy_pass http://service;", `content_by_lua_block { ngx.print("served") }`),
  });
});
afterAll(() => gateway?.stop());

describe("a gateway of four workers", () => {
  it("runs four workers", async () => {
    // The first one answers before the last one is there.
    await untilPasses(async () => expect(await childrenOf(gateway.pid)).toHaveLength(4));
  });

  it("limits a token bucket of 50/s, burst 50, to burst + rate × time, and admits nearly all of it", async () => {
    let admitted = 0;
    const startedAtMs = performance.now();
    const seconds = 2;
    const offer = async () => {
      while (performance.now() - startedAtMs < seconds * 1000) {
        const { status } = await ask(`${gateway.url}/bucket`);
        if (status === 200) admitted += 1;
        else expect(status).toBe(429);
      }
    };
    await Promise.all(Array.from({ length: 16 }, offer));
    const tookSeconds = (performance.now() - startedAtMs) / 1000;
    expect(admitted).toBeLessThanOrEqual(50 + 50 * tookSeconds);
    // The last units may have come after the last requests.
    expect(admitted).toBeGreaterThanOrEqual(50 + 50 * seconds - 5);
  });

  it("admits exactly 100 of 1,000 concurrent requests in each of two fixed windows in a row, and charges several limits together or not at all", async () => {
    const windowNow = () => Math.floor(Date.now() / windowMs);
    // The requests start just after the border, so that all are answered before the next one.
    const untilNextWindow = () => sleep(windowMs - (Date.now() % windowMs) + 20);
    const pair = (round: number, count: number) =>
      askAtOnce([`${gateway.url}/pair`], count, { headers: { "x-key": `${round}` } });
    const seen: number[] = [];
    for (let round = 0; seen.length < 2; round++) {
      await untilNextWindow();
      const startedIn = windowNow();
      const answered = await Promise.all([askAtOnce([`${gateway.url}/hundred`], 1000), pair(round, 100)]);
      if (windowNow() !== startedIn) {
        // A round that takes longer than its window proves nothing about the window.
        expect(round, "rounds that outlasted their window").toBeLessThan(6);
        continue;
      }
      expect(answered).toEqual([
        { 200: 100, 429: 900 },
        { 200: 30, 429: 70 },
      ]);
      seen.push(round);
    }
    await untilNextWindow();
    for (const round of seen) {
      const { headers } = await ask(`${gateway.url}/pair`, { headers: { "x-key": `${round}` } });
      // The bucket is the most restrictive in a new window. It was charged for the 30 that were admitted, and for this one.
      expect(headers["x-ratelimit-remaining"]).toBe("19");
    }
  });
});
