// Plays traces on counters in memory: in Node, in the browser, and in Lua with the modules that nginx runs.

import { calendarWindow, followWindow } from "../../limiter/src/algorithms/calendar-window.ts";
import { admitsAll, type Counter, chargeAll } from "../../limiter/src/algorithms/charge-all.ts";
import { concurrency, renewSlots } from "../../limiter/src/algorithms/concurrency.ts";
import { emptyDecision } from "../../limiter/src/algorithms/decision.ts";
import { type MemoryCounter, memoryCounter, memoryRing } from "../../limiter/src/algorithms/memory-ring.ts";
import { describe, keepsEntries, type Rate, rateOf, refund, slides } from "../../limiter/src/algorithms/rate.ts";
import { beginningOf, entriesOf, momentsAround, numbersReported, type Player, type TraceLimit } from "./trace.ts";

interface Kept extends MemoryCounter, Counter {
  before: number[];
}

export function memoryPlayer(): Player {
  let counters: Kept[] = [];
  const decision = emptyDecision();

  function prepare(cost: number, nowUs: number): void {
    for (const counter of counters) {
      counter.cost = cost;
      if (counter.rate.algorithm === "calendar-window") followWindow(counter.rate, nowUs);
      if (!keepsEntries(counter.rate)) continue;
      const { before } = counter;
      before[0] = counter.atUs;
      before[1] = counter.count;
      before[2] = counter.first;
      before[3] = counter.length;
      before[4] = counter.start;
      before[5] = counter.offset;
      // A shaped-bucket that steps back writes its only entry.
      before[6] = counter.ticks[0] ?? 0;
      before[7] = counter.starts[0] ?? 0;
    }
  }

  /** Restores the counter, since a store does not write what a refusal or a peek has made of it. */
  function forget(counter: Kept): void {
    if (!keepsEntries(counter.rate)) return;
    const { before } = counter;
    counter.atUs = before[0] as number;
    counter.count = before[1] as number;
    counter.first = before[2] as number;
    counter.length = before[3] as number;
    counter.start = before[4] as number;
    counter.offset = before[5] as number;
    if (slides(counter.rate)) return;
    counter.ticks[0] = before[6] as number;
    counter.starts[0] = before[7] as number;
  }

  function tell(index: number, nowUs: number, reportedNumbers: number[]): void {
    const counter = counters[index] as Kept;
    describe(counter.rate, counter, memoryRing, nowUs, counter.cost, counter.allowed, decision);
    const at = index * numbersReported;
    reportedNumbers[at] = decision.allowed ? 1 : 0;
    reportedNumbers[at + 1] = decision.remaining;
    reportedNumbers[at + 2] = decision.retryAfterUs;
    reportedNumbers[at + 3] = decision.resetAfterUs;
    reportedNumbers[at + 4] = decision.delayUs;
    reportedNumbers[at + 5] = counter.atUs;
  }

  return {
    begin: (limits) => {
      counters = [];
      for (const limit of limits) {
        const counter = memoryCounter() as Kept;
        counter.unpaidUs = 0;
        counter.rate = rateFor(limit);
        counter.before = [];
        counters.push(counter);
      }
    },
    edit: (limits) => {
      for (let i = 0; i < counters.length; i++) (counters[i] as Kept).rate = rateFor(limits[i] as TraceLimit);
    },
    ask: (nowUs, cost, reportedNumbers) => {
      prepare(cost, nowUs);
      const allowed = chargeAll(counters, counters.length, memoryRing, nowUs);
      for (let i = 0; i < counters.length; i++) {
        const counter = counters[i] as Kept;
        tell(i, nowUs, reportedNumbers);
        if (!allowed && !counter.stepped) forget(counter);
      }
      return allowed;
    },
    peek: (nowUs, cost, reportedNumbers) => {
      prepare(cost, nowUs);
      for (let i = 0; i < counters.length; i++) {
        const counter = counters[i] as Kept;
        const { atUs, count } = counter;
        admitsAll([counter], 1, memoryRing, nowUs);
        tell(i, nowUs, reportedNumbers);
        reportedNumbers[i * numbersReported + 5] = 0;
        counter.atUs = atUs;
        counter.count = count;
        forget(counter);
      }
    },
    refund: (nowUs, cost, moments) => {
      for (let i = 0; i < counters.length; i++) {
        const counter = counters[i] as Kept;
        if (counter.atUs > 0 || counter.count > 0)
          refund(counter.rate, counter, memoryRing, nowUs, moments[i] as number, cost);
      }
    },
    renew: (nowUs, slots, heldAtUs) => {
      const counter = counters[0] as Kept;
      const { quota, windowUs } = counter.rate;
      const renewed = renewSlots(concurrency(quota, windowUs), counter, memoryRing, nowUs, heldAtUs, slots);
      return renewed === undefined ? -1 : renewed;
    },
    stored: (limit, _nowUs, into) => {
      const counter = counters[limit] as Kept;
      into.push(counter.atUs);
      into.push(counter.count);
      if (slides(counter.rate)) entriesOf(counter.rate.tickUs, counter, memoryRing, into);
      else if (keepsEntries(counter.rate)) beginningOf(counter, memoryRing, into);
    },
  };
}

function rateFor(limit: TraceLimit): Rate {
  const { algorithm, quota, windowUs } = limit;
  if (algorithm !== "calendar-window") return rateOf({ ...limit, algorithm });
  return calendarWindow(quota, windowUs, (window, nowUs) => {
    const [previousUs, startUs, endUs, nextEndUs] = momentsAround(windowUs, nowUs);
    window.previousUs = previousUs;
    window.startUs = startUs;
    window.endUs = endUs;
    window.nextEndUs = nextEndUs;
  });
}
