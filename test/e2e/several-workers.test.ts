// Several nginx workers share one count: together they admit what one would.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, askAtOnce } from "../fixtures/requests.ts";
import { nginxProcesses, System } from "../fixtures/system.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ workers: 4 });
});
afterAll(() => system?.stop());

describe("a gateway of four workers", () => {
  it("runs four workers", () => {
    expect(nginxProcesses(system.gateway).workers).toHaveLength(4);
  });

  it("admits exactly 100 of 1,000 concurrent requests in each of ten fixed windows in a row", async () => {
    const windowMs = 2000;
    await system.put({
      name: "hundred",
      match: { paths: ["/hundred"] },
      limits: [{ algorithm: "fixed-window", quota: 100, window: `${windowMs}ms` }],
    });
    const windowNow = () => Math.floor(Date.now() / windowMs);
    let outlasted = 0;
    for (let seen = 0; seen < 10; ) {
      // The requests start just after the border, so that all thousand are answered before the next one.
      await sleep(windowMs - (Date.now() % windowMs) + 20);
      const startedIn = windowNow();
      const statuses = await askAtOnce([`${system.gateway.url}/hundred`], 1000);
      if (windowNow() !== startedIn) {
        // A round that takes longer than its window proves nothing about the window.
        outlasted += 1;
        expect(outlasted, "rounds that outlasted their window").toBeLessThan(5);
        continue;
      }
      expect(statuses).toEqual({ 200: 100, 429: 900 });
      seen += 1;
    }
  });

  it("limits a token bucket of 50/s, burst 50, to burst + rate × time, and admits at least 99% of it", async () => {
    await system.put({
      name: "bucket",
      match: { paths: ["/bucket"] },
      limits: [{ algorithm: "token-bucket", quota: 50, window: "1s", burst: 50 }],
    });
    const admittedAtMs: number[] = [];
    const startedAtMs = performance.now();
    const seconds = 10;
    const offer = async () => {
      while (performance.now() - startedAtMs < seconds * 1000) {
        const { status } = await ask(`${system.gateway.url}/bucket`);
        if (status === 200) admittedAtMs.push(performance.now() - startedAtMs);
        else expect(status).toBe(429);
      }
    };
    await Promise.all(Array.from({ length: 16 }, offer));
    const tookSeconds = (performance.now() - startedAtMs) / 1000;
    expect(admittedAtMs.length).toBeLessThanOrEqual(50 + 50 * tookSeconds);
    expect(admittedAtMs.length).toBeGreaterThanOrEqual(0.99 * (50 + 50 * seconds));
  });

  it("charges several limits of one policy together or not at all", async () => {
    const pair = (fewQuota: number) => ({
      name: "pair",
      match: { paths: ["/pair"] },
      limits: [
        { name: "few", algorithm: "fixed-window", quota: fewQuota, window: "366d" },
        { name: "many", algorithm: "token-bucket", quota: 1, window: "1d", burst: 1000 },
      ],
    });
    await system.put(pair(30));
    expect(await askAtOnce([`${system.gateway.url}/pair`], 300)).toEqual({ 200: 30, 429: 270 });
    // With the small limit widened, the other limit is the most restrictive: it was charged only for the 30 that were admitted.
    await system.put(pair(5000));
    expect((await ask(`${system.gateway.url}/pair`)).headers["x-ratelimit-remaining"]).toBe("969");
  });
});
