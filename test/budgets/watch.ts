// Watches a control plane while it is flooded: its memory, how long /healthz takes from an address that floods nothing, and how long
// an edit takes to the last of its gateways.

import { setTimeout as sleep } from "node:timers/promises";
import { percentileOf } from "../fixtures/clients/crowd.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { residentKb } from "../fixtures/measures/resident-memory.ts";
import { quietApp, type World } from "./world.ts";

export interface Watched {
  readonly beforeMb: number;
  readonly mostMb: number;
  readonly healthz: Waits;
  readonly push: Waits;
  /** Edits that were not answered with success. */
  readonly refusedEdits: number;
}

/** In ms. */
export interface Waits {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
}

/** A load balancer has an address of its own, too. */
const healthzFrom = "127.0.0.200";
const healthzEveryMs = 25;
const memoryEveryMs = 100;
const editEveryMs = 200;
const silentAfterMs = 10_000;

/** @param untilMs of performance.now() */
export async function watch({ plane, gateways }: World, untilMs: number): Promise<Watched> {
  const beforeKb = residentKb(plane.pid);
  let mostKb = 0;
  const healthz: number[] = [];
  const push: number[] = [];
  let refusedEdits = 0;
  const repeat = async (everyMs: number, act: () => Promise<void> | void) => {
    while (performance.now() < untilMs) {
      const nextAtMs = performance.now() + everyMs;
      await act();
      await sleep(Math.max(1, nextAtMs - performance.now()));
    }
  };
  let quota = 1;
  await Promise.all([
    repeat(memoryEveryMs, () => {
      mostKb = Math.max(mostKb, residentKb(plane.pid));
    }),
    repeat(healthzEveryMs, async () => {
      const beganMs = performance.now();
      await ask(`${plane.url}/healthz`, { from: healthzFrom }).catch(() => undefined);
      healthz.push(performance.now() - beganMs);
    }),
    repeat(editEveryMs, async () => {
      quota += 1;
      const body = { limits: [{ algorithm: "fixed-window", quota, window: "1s" }] };
      const { status, body: answer } = await plane.call("PUT", `/apps/${quietApp}/policies/edited`, body);
      const storedMs = performance.now();
      if (status >= 300) {
        refusedEdits += 1;
        return;
      }
      const last = gateways.at(-1);
      while ((last?.held.revision ?? 0) < answer.revision && performance.now() - storedMs < silentAfterMs)
        await sleep(1);
      push.push(performance.now() - storedMs);
    }),
  ]);
  return {
    beforeMb: beforeKb / 1_024,
    mostMb: mostKb / 1_024,
    healthz: waitsOf(healthz),
    push: waitsOf(push),
    refusedEdits,
  };
}

function waitsOf(ms: readonly number[]): Waits {
  const sorted = ms.toSorted((a, b) => a - b);
  return {
    count: sorted.length,
    p50: percentileOf(sorted, 50),
    p99: percentileOf(sorted, 99),
    most: sorted.at(-1) ?? 0,
  };
}
