// Keeps requests from waiting for a server that does not answer: after some failures in a row nothing is sent to it, until a
// probe of the worker's own has been answered. Of each server, and each worker for itself.

import { runUntilDone } from "../runtime/background.ts";
import { noteOutage, noteReturn } from "../runtime/outages.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";

export interface Breaker {
  /** Of the server, for the log. */
  readonly name: string;
  /** In a row. */
  failures: number;
  /** Nothing is sent. */
  open: boolean;
  /** Before the next probe. */
  pauseSeconds: number;
}

const failuresToOpen = 3;
const firstPauseSeconds = 0.05;
const longestPauseSeconds = 0.25;

let openBreakers = 0;

export function closedBreaker(name: string): Breaker {
  return { name, failures: 0, open: false, pauseSeconds: firstPauseSeconds };
}

/** How many servers this worker sends nothing to. */
export function openBreakerCount(): number {
  return openBreakers;
}

export function noteAnswer(breaker: Breaker): void {
  breaker.failures = 0;
}

/** @param probe asks the server something harmless, and tells whether it answered: then there is no other. Yields */
export function noteFailure(breaker: Breaker, probe: () => boolean): void {
  breaker.failures += 1;
  if (breaker.open || breaker.failures < failuresToOpen) return;
  breaker.pauseSeconds = firstPauseSeconds;
  const failure = runUntilDone(() => probeAgain(breaker, probe));
  // Without a probe nobody would find out that it is back.
  if (failure !== undefined) {
    warnSparingly("requests wait for a Redis that fails", failure);
    return;
  }
  breaker.open = true;
  openBreakers += 1;
  noteOutage(breaker.name, "it fails, and is asked nothing until it answers a probe");
}

/** @returns whether to probe once more */
function probeAgain(breaker: Breaker, probe: () => boolean): boolean {
  if (!ngx.worker.exiting()) {
    // Never the same in all workers: a server that comes back is not asked by all at once.
    ngx.sleep(breaker.pauseSeconds * (0.75 + math.random() / 2));
    const [ran, answered] = pcall(probe);
    if (!ran || !answered) {
      breaker.pauseSeconds = math.min(breaker.pauseSeconds * 2, longestPauseSeconds);
      return true;
    }
    noteReturn(breaker.name, "it answers again, or another has taken its place");
  }
  breaker.failures = 0;
  breaker.open = false;
  openBreakers -= 1;
  return false;
}
