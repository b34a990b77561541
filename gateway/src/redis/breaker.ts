// Keeps requests from waiting for a server that does not answer: after some failures in a row nothing is sent to it, until a
// probe of the worker's own has been answered. Of each server, and each worker for itself.

import { runSoon } from "../runtime/background.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";

export interface Breaker {
  /** In a row. */
  failures: number;
  /** Nothing is sent. */
  open: boolean;
}

const failuresToOpen = 3;
const firstPauseSeconds = 0.05;
const longestPauseSeconds = 0.25;

let openBreakers = 0;

export function closedBreaker(): Breaker {
  return { failures: 0, open: false };
}

/** How many servers this worker sends nothing to. */
export function openBreakerCount(): number {
  return openBreakers;
}

export function noteAnswer(breaker: Breaker): void {
  breaker.failures = 0;
}

/** @param probe asks the server something harmless, and tells whether it answered. Yields */
export function noteFailure(breaker: Breaker, probe: () => boolean): void {
  breaker.failures += 1;
  if (breaker.open || breaker.failures < failuresToOpen) return;
  const failure = runSoon(() => probeUntilAnswered(breaker, probe));
  // Without a probe nobody would find out that it is back.
  if (failure !== undefined) {
    warnSparingly("requests wait for a Redis that fails", failure);
    return;
  }
  breaker.open = true;
  openBreakers += 1;
}

function probeUntilAnswered(breaker: Breaker, probe: () => boolean): void {
  let pause = firstPauseSeconds;
  while (!ngx.worker.exiting()) {
    // Never the same in all workers: a server that comes back is not asked by all at once.
    ngx.sleep(pause * (0.75 + math.random() / 2));
    const [ran, answered] = pcall(probe);
    if (ran && answered) break;
    pause = math.min(pause * 2, longestPauseSeconds);
  }
  breaker.failures = 0;
  breaker.open = false;
  openBreakers -= 1;
}
