// Finds a smaller world that shows the same kind of difference: with fewer events and policies first, then with simpler ones.

import type { PolicyDocument, World, WorldEvent } from "./world.ts";
import { isLegal, legal } from "./worlds.ts";

const longestMs = 30_000;

/** @param differs says which event of a world shows a difference; undefined: none does */
export async function smallest(world: World, differs: (world: World) => Promise<number | undefined>): Promise<World> {
  const deadline = Date.now() + longestMs;
  let least = world;
  const tries = async (candidate: World): Promise<boolean> => {
    const next = legal(candidate);
    if (Date.now() > deadline || next.events.length === 0 || !isLegal(next)) return false;
    if (JSON.stringify(next).length >= JSON.stringify(least).length) return false;
    const index = await differs(next);
    if (index === undefined) return false;
    least = { ...next, events: next.events.slice(0, index + 1) };
    return true;
  };
  for (let before = ""; before !== JSON.stringify(least) && Date.now() < deadline; ) {
    before = JSON.stringify(least);
    await withFewerEvents(() => least, tries);
    for (const candidate of simpler(least)) await tries(candidate(least));
  }
  return least;
}

async function withFewerEvents(least: () => World, tries: (world: World) => Promise<boolean>): Promise<void> {
  for (let size = Math.ceil(least().events.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = least().events.length - size; at >= 0; at--) {
      // Without these events, the others come at the same moments, or sooner.
      if (!(await tries(without(least(), at, size, true)))) await tries(without(least(), at, size, false));
    }
  }
}

function without(world: World, at: number, count: number, keepsMoments: boolean): World {
  const left = world.events.slice(at, at + count);
  const missedMs = left.reduce((sum, { afterMs }) => sum + afterMs, 0);
  const events = world.events.filter((_, i) => i < at || i >= at + count);
  const next = events[at];
  if (keepsMoments && next !== undefined) events[at] = { ...next, afterMs: next.afterMs + missedMs };
  return { ...world, events };
}

/** Changes that each make a world simpler, if it still differs. They are given the world as it is by then. */
function simpler(world: World): ((world: World) => World)[] {
  const changes: ((world: World) => World)[] = [
    (one) => ({
      ...one,
      gateways: 1,
      events: one.events.map((event) => ("gateway" in event ? { ...event, gateway: 1 } : event)),
    }),
    (one) => ({
      ...one,
      workers: 1,
      events: one.events.map((event) => ("worker" in event ? { ...event, worker: 1 } : event)),
    }),
    (one) => ({ ...one, startMs: 1_700_000_000_000 }),
    (one) => ({ ...one, redisAheadUs: 0 }),
  ];
  for (const { name, limits = [], ...policy } of world.policies) {
    changes.push((one) => ({ ...one, policies: one.policies.filter((other) => other.name !== name) }));
    const change = (edit: (policy: PolicyDocument) => PolicyDocument) =>
      changes.push((one) => ({
        ...one,
        policies: one.policies.map((other) => (other.name === name ? edit(other) : other)),
      }));
    for (const field of Object.keys(policy)) {
      if (field === "match") continue;
      change((other) => {
        const next: Record<string, unknown> = { ...other };
        if (field === "key") next["key"] = [];
        else delete next[field];
        return next as unknown as PolicyDocument;
      });
    }
    for (const { name: limit } of limits) {
      if (limits.length > 1)
        change((other) => ({ ...other, limits: other.limits?.filter((one) => one.name !== limit) ?? [] }));
    }
  }
  for (const [i, event] of world.events.entries()) {
    const change = (edit: (event: WorldEvent) => WorldEvent) =>
      changes.push((one) => ({ ...one, events: one.events.map((other, k) => (k === i ? edit(other) : other)) }));
    for (const ms of [0, 1_000, 60_000]) change((one) => ({ ...one, afterMs: ms }));
    if (event.do === "ask") {
      for (const header of Object.keys(event.headers)) {
        change((one) => {
          if (one.do !== "ask") return one;
          const { [header]: _, ...headers } = one.headers;
          return { ...one, headers };
        });
      }
    }
  }
  return changes;
}
