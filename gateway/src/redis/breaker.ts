// Keeps requests from waiting for a server that does not answer: after a silence, or some failures in a row, nothing is sent
// to it until it has answered a probe of the worker's own in time. Each worker judges each server for itself.

import { runSoon, runUntilDone } from "../runtime/background.ts";
import { noteOutage, noteReturn } from "../runtime/outages.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";

export interface Breaker {
  /** Of the server, for the log. */
  readonly name: string;
  /** In a row. */
  failures: number;
  /** Nothing is sent. */
  open: boolean;
  /** How often it has opened: a probe belongs to one opening. */
  openings: number;
  /** Before the next probe. */
  pauseSeconds: number;
  probe: Probe | undefined;
  /** Whether a late answer has begun one. */
  hurried: boolean;
}

/** Asks the server something harmless, and tells whether it answered: then there is no other. Yields. */
type Probe = (this: void) => boolean;

const failuresToOpen = 3;
const firstPauseSeconds = 0.05;
const longestPauseSeconds = 0.25;

let openBreakers = 0;

export function closedBreaker(name: string): Breaker {
  return {
    name,
    failures: 0,
    open: false,
    openings: 0,
    pauseSeconds: firstPauseSeconds,
    probe: undefined,
    hurried: false,
  };
}

/** How many servers this worker sends nothing to. */
export function openBreakerCount(): number {
  return openBreakers;
}

export function noteAnswer(breaker: Breaker): void {
  breaker.failures = 0;
}

/** To a call that was given up: the server may be well again, or answer everything that late. A probe tells, without a pause. */
export function noteLateAnswer(breaker: Breaker): void {
  const { probe, openings } = breaker;
  if (!breaker.open || breaker.hurried || probe === undefined) return;
  breaker.hurried = true;
  const failure = runSoon(() => {
    const [ran, answered] = pcall(probe);
    breaker.hurried = false;
    if (ran && answered && isOpen(breaker, openings)) close(breaker);
  });
  if (failure !== undefined) breaker.hurried = false;
}

/** A call failed at once: a few in a row are an outage. */
export function noteFailure(breaker: Breaker, probe: Probe): void {
  breaker.failures += 1;
  if (breaker.failures >= failuresToOpen) open(breaker, probe);
}

/** The server has been silent for a whole deadline: that is an outage, and nobody else is to wait for it. */
export function noteSilence(breaker: Breaker, probe: Probe): void {
  breaker.failures += 1;
  open(breaker, probe);
}

function open(breaker: Breaker, probe: Probe): void {
  if (breaker.open) return;
  breaker.pauseSeconds = firstPauseSeconds;
  breaker.openings += 1;
  breaker.probe = probe;
  const opening = breaker.openings;
  const failure = runUntilDone(() => probeAgain(breaker, opening, probe));
  // Without a probe nobody would find out that it is back.
  if (failure !== undefined) {
    warnSparingly("requests wait for a Redis that fails", failure);
    return;
  }
  breaker.open = true;
  openBreakers += 1;
  noteOutage(breaker.name, "it fails, and is asked nothing until it answers a probe");
}

function close(breaker: Breaker): void {
  breaker.failures = 0;
  breaker.open = false;
  openBreakers -= 1;
  if (!ngx.worker.exiting()) noteReturn(breaker.name, "it answers again, or another has taken its place");
}

/** @returns whether to probe once more */
function probeAgain(breaker: Breaker, opening: number, probe: Probe): boolean {
  if (!ngx.worker.exiting()) {
    // Never the same in all workers: a server that comes back is not asked by all at once.
    ngx.sleep(breaker.pauseSeconds * (0.75 + math.random() / 2));
    if (!isOpen(breaker, opening)) return false;
    const [ran, answered] = pcall(probe);
    if (!ran || !answered) {
      breaker.pauseSeconds = math.min(breaker.pauseSeconds * 2, longestPauseSeconds);
      return isOpen(breaker, opening);
    }
  }
  if (isOpen(breaker, opening)) close(breaker);
  return false;
}

/** The probe that a late answer began may have closed it meanwhile, and a failure opened it again. */
function isOpen({ open: isStillOpen, openings }: Breaker, opening: number): boolean {
  return isStillOpen && openings === opening;
}
