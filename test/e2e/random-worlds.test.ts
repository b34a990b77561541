// Real nginxes with a real Redis decide random worlds as the documents say. `npm run oracle -- --real` plays as many as one likes.

import { afterAll, expect, it } from "vitest";
import { asTest, play, shrunk } from "../oracle/oracle.ts";
import { RealPlayer } from "../oracle/real/player.ts";
import { compare } from "../oracle/reference/reference.ts";
import type { World } from "../oracle/world.ts";
import { everyAlgorithm } from "../oracle/worlds.ts";

const player = new RealPlayer(2);
afterAll(() => player.stop());

it("decides random worlds as the documents say", async () => {
  // Always the same ones, in which nobody waits for long.
  const kinds = { scopes: ["node", "cluster"] as const, algorithms: everyAlgorithm };
  const outcome = await play({ seed: 3_320, worlds: 24, kinds, mostDifferences: 1 }, player, () => {});
  const [found] = outcome.found;
  expect(found && asTest(await shrunk(player, found))).toBeUndefined();
  // The worlds have something to decide.
  expect(outcome.decisions).toBeGreaterThan(1_000);
  expect(outcome.refusals).toBeGreaterThan(100);
  expect(outcome.gaveUp).toBeLessThan(8);
});

/** Three requests at the same moment to a policy of so many units in an hour, and one more an hour and a ms later. */
function oneWindow(quota: number, scope: "node" | "cluster"): World {
  const ask = {
    do: "ask" as const,
    path: "/one",
    headers: { "x-key": "a" },
    address: "192.0.2.1",
    gateway: 1,
    worker: 1,
    serviceMs: 0,
  };
  const limits = [{ name: "default", algorithm: "fixed-window" as const, quota, window: "1h" }];
  return {
    startMs: 1_700_000_000_000,
    redisAheadUs: 0,
    gateways: 1,
    workers: 2,
    policies: [{ name: "p1", match: { paths: ["/one"] }, key: ["header:x-key"], limits, scope }],
    events: [0, 0, 0, 3_600_001].map((afterMs, i) => ({ ...ask, afterMs, worker: 1 + (i % 2) })),
  };
}

it.each(["node", "cluster"] as const)("sets the clock of nginx and Redis: scope %s", async (scope) => {
  const { answers, fault } = await player.play(oneWindow(2, scope));
  expect(fault).toBeUndefined();
  expect(answers).toMatchObject([
    { status: 200, headers: { ratelimit: '"default";r=1;t=2800' } },
    { status: 200, headers: { ratelimit: '"default";r=0;t=2800' } },
    { status: 429, headers: { ratelimit: '"default";r=0;t=2800', "retry-after": "2800" } },
    { status: 200, headers: { ratelimit: '"default";r=1;t=2800' } },
  ]);
});

it("finds a gateway that differs: here, one that counts by another quota", async () => {
  const { answers } = await player.play(oneWindow(2, "node"));
  const { difference } = compare(oneWindow(3, "node"), answers);
  expect(difference).toMatchObject({
    index: 0,
    words: expect.stringMatching(/^expected shows default r=2 .* got 200/),
  });
});
