// A few rounds of the property test that `npm run deltas` plays a million edits of.

import { expect, it } from "vitest";
import { large, play } from "./play.ts";

it("makes a gateway's state equal to a snapshot after any sequence of edits and faults", async () => {
  const played = await play({ seed: Math.floor(Math.random() * 1e9), edits: 4_000 });
  // Everything that may go wrong went wrong.
  expect(played.snapshots).toBeGreaterThan(0);
  expect(played.deltas).toBeGreaterThan(played.snapshots);
  expect(played.misfits).toBeGreaterThan(0);
  expect(Math.min(played.lost, played.repeated, played.restarts, played.reconnects)).toBeGreaterThan(0);
});

it("does so with many policies that change at once", async () => {
  await play({ seed: Math.floor(Math.random() * 1e9), edits: 300, size: large, compareEvery: 20 });
});

it("does so after every single edit", async () => {
  await play({ seed: Math.floor(Math.random() * 1e9), edits: 400, compareEvery: 1 });
});
