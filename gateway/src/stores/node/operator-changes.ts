// Operators' orders about one counter in this nginx's shared memory: read it, forget it, or add units back.

import { capacity, lifetimeUs } from "../../../../limiter/src/algorithms/rate.ts";
import { topUp } from "../../../../limiter/src/algorithms/top-up.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import type { CounterReading } from "../../../../limiter/src/protocol/push-messages.ts";
import { nowUs } from "../../runtime/clock.ts";
import { lifeSecondsOf } from "../../runtime/shared-memory.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import {
  cellRing,
  counterKey,
  dictOf,
  emptyCell,
  entriesKey,
  loadRing,
  newCellCounter,
  saveCounter,
  storeCell,
} from "./counter-cells.ts";
import { acquireAll, loadPlaced, releaseAll } from "./counter-places.ts";
import { forgetDebt, unpaidOnNode } from "./debts-on-node.ts";
import { describeWithDebt } from "./deferred-charge.ts";
import { lockOf, mustAgree } from "./node-counters.ts";

/** Work space: what is read here is written before anything yields. */
const counter = newCellCounter();

/** Reads the current state of the counters; charges nothing. */
export function readOnNode(policy: CompiledPolicy, keyValues: string): CounterReading[] {
  const now = nowUs();
  const readings: CounterReading[] = [];
  for (const limit of policy.limits) {
    const { name, rate } = limit;
    // A limit is reported as to a request of one unit, with its debt.
    const { remaining, resetAfterUs } = describeWithDebt(limit, keyValues, now);
    readings.push({ name, capacity: capacity(rate), remaining, resetAfterUs });
  }
  return readings;
}

/**
 * Resets the counters to unused, and their debts too. May yield if workers must agree.
 *
 * A counter in the overflow belongs to other keys too, whose units stay. So the key gets an empty cell of its own, which takes
 * precedence over the shared one for as long as the shared one remembers its current units.
 */
export function forgetOnNode(policy: CompiledPolicy, keyValues: string): void {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const now = nowUs();
  for (const limit of policy.limits) {
    const { rate } = limit;
    load(limit, keyValues, now);
    const lifeUs = counter.shared ? lifetimeUs(rate, counter, now) : 0;
    counter.shared = false;
    counter.key = counterKey(limit, keyValues);
    const dict = dictOf(counter);
    dict.delete(counter.key);
    // Later cells of entries then belong to no counter, and expire.
    dict.delete(entriesKey(counter, 0));
    forgetDebt(counter.key);
    if (lifeUs > 0 && !storeCell(counter.key, emptyCell(rate), lifeSecondsOf(lifeUs), 0)) {
      warnSparingly("a counter was not reset, because there is no memory for it", `${policy.app}/${policy.name}`);
    }
  }
  if (held !== undefined) releaseAll(held);
}

/**
 * Adds units back, as far as they count. May yield if workers must agree.
 *
 * @param name of the limit; undefined: all limits
 */
export function topUpOnNode(policy: CompiledPolicy, keyValues: string, name: string | undefined, units: number): void {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const now = nowUs();
  for (const limit of policy.limits) {
    if (name === undefined || limit.name === name) topUpCell(limit, keyValues, units, now);
  }
  if (held !== undefined) releaseAll(held);
}

function topUpCell(limit: CompiledLimit, keyValues: string, units: number, now: number): undefined {
  const { rate } = limit;
  if (!load(limit, keyValues, now)) return;
  loadRing(counter);
  // Nobody tops up a counter that owes.
  if (unpaidOnNode(counter, now, undefined) > 0) return;
  const { atUs, count } = counter;
  topUp(rate, counter, cellRing, now, units);
  if (rate.algorithm === "fixed-window" && counter.atUs === atUs && !counter.shared) {
    // Other workers may charge by incr meanwhile, which needs no lock.
    dictOf(counter).incr(counter.key, counter.count - count);
  } else {
    saveCounter(counter, now);
  }
}

/** @returns whether the counter exists */
function load(limit: CompiledLimit, keyValues: string, now: number): boolean {
  counter.rate = limit.rate;
  counter.cost = 1;
  counter.stepped = false;
  return loadPlaced(counter, limit, keyValues, now);
}
