// The schedule: when which fault begins and how long it lasts. It is drawn from a seed before anything runs, so that the same
// seed gives the same schedule.

import { seeded } from "../limiter/lease/lease-world.ts";

/** Faults of Redis, or between Redis and all gateways: one at a time. */
export const redisFaults = [
  "refused",
  "black-holed",
  "late",
  "replies lost",
  "SCRIPT FLUSH",
  "FLUSHALL",
  "READONLY",
  "OOM",
  "LOADING",
] as const;

/** Faults of anything else, alone or beside one of those. */
export const otherFaults = [
  "worker killed",
  "nginx reloaded",
  "control plane restarted",
  "one gateway cut off",
  "all reconnect",
  "policies edited",
] as const;

export type FaultName = (typeof redisFaults)[number] | (typeof otherFaults)[number];

/** One or two faults that begin together and last equally long, with a quiet time behind them. */
export interface Step {
  /** Milliseconds since the load began. */
  readonly atMs: number;
  readonly lastsMs: number;
  readonly faults: readonly FaultName[];
}

/** Nothing happens in this time at the beginning. */
const firstMs = 10_000;
/** Nothing happens in this time at the end. */
const lastMs = 12_000;
const faultMs = { least: 1000, most: 8000 };
export const quietMs = { least: 5000, most: 14_000 };

/** @param lengthMs length of the whole run */
export function scheduleOf(seed: number, lengthMs: number): Step[] {
  const below = seeded(seed);
  // The first number of a small seed is small, so it is dropped.
  below(1);
  const between = ({ least, most }: { least: number; most: number }) => least + below(most - least);
  const ofRedis = new Deck<FaultName>(redisFaults, below);
  const ofOthers = new Deck<FaultName>(otherFaults, below);
  const steps: Step[] = [];
  for (let atMs = firstMs; ; ) {
    const lastsMs = between(faultMs);
    const kind = below(3);
    const faults = [...(kind !== 1 ? [ofRedis.draw()] : []), ...(kind !== 0 ? [ofOthers.draw()] : [])];
    if (atMs + lastsMs > lengthMs - lastMs) return steps;
    steps.push({ atMs, lastsMs, faults: faults.map((fault) => instead(fault, atMs > lengthMs / 2)) });
    atMs += lastsMs + between(quietMs);
  }
}

/** In the second half the control plane is not restarted, so that its leaks can be seen. */
function instead(fault: FaultName, inSecondHalf: boolean): FaultName {
  return inSecondHalf && fault === "control plane restarted" ? "policies edited" : fault;
}

/** Draws each card once before it draws one again. */
class Deck<Card> {
  readonly #all: readonly Card[];
  readonly #below: (below: number) => number;
  #left: Card[] = [];

  constructor(all: readonly Card[], below: (below: number) => number) {
    this.#all = all;
    this.#below = below;
  }

  draw(): Card {
    if (this.#left.length === 0) this.#left = [...this.#all];
    return this.#left.splice(this.#below(this.#left.length), 1)[0] as Card;
  }
}
