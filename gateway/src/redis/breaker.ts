// Keeps requests from waiting for a server that does not answer. After one silence, or some failures in a row, the worker sends
// it nothing until it has answered one of the worker's own probes in time. Each worker decides for itself about each server.

import { runSoon, runUntilDone } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { noteOutage, noteReturn } from "../runtime/outages.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { publishState } from "../runtime/worker-states.ts";

export interface Breaker {
  /** The server's name for the log. */
  readonly name: string;
  /** Failures in a row. */
  failures: number;
  /** While open, nothing is sent. */
  open: boolean;
  /** How often the breaker has opened: a probe belongs to one opening. */
  openings: number;
  /** The pause before the next probe. */
  pauseSeconds: number;
  probe: Probe | undefined;
  /** A late answer has started an extra probe. */
  hurried: boolean;
}

/** Sends the server a harmless command and returns whether it answered; if it did, there are no further probes. Yields. */
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

/** Publishes how many servers this worker sends nothing to. Called when a worker starts. */
export function publishOpenBreakers(): void {
  publishState("open-breakers", openBreakers);
}

export function noteAnswer(breaker: Breaker): void {
  breaker.failures = 0;
}

/**
 * Called when a server answers a call that was given up: it may have recovered, or may answer everything that late. A probe
 * without a pause finds out.
 */
export function noteLateAnswer(breaker: Breaker): void {
  const { probe, openings } = breaker;
  if (!breaker.open || breaker.hurried || probe === undefined) return;
  breaker.hurried = true;
  const failure = runSoon(() => {
    const answered = isAnswered(probe);
    breaker.hurried = false;
    if (answered && isOpen(breaker, openings)) close(breaker);
  });
  if (failure !== undefined) breaker.hurried = false;
}

/** Called when a call failed at once: a few failures in a row count as an outage. */
export function noteFailure(breaker: Breaker, probe: Probe): void {
  breaker.failures += 1;
  if (breaker.failures >= failuresToOpen) open(breaker, probe);
}

/**
 * Called when the server was silent for a whole deadline: this counts as an outage, and no other request may wait for the server.
 */
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
  // Without a probe, no request would find out that the server is back.
  if (failure !== undefined) {
    warnSparingly("requests go on waiting for a failing Redis, because its probe could not start", failure);
    return;
  }
  breaker.open = true;
  openBreakers += 1;
  publishOpenBreakers();
  noteOutage(breaker.name, "it fails; nothing is sent to it until it answers a probe");
}

function close(breaker: Breaker): void {
  breaker.failures = 0;
  breaker.open = false;
  openBreakers -= 1;
  publishOpenBreakers();
  if (!ngx.worker.exiting()) noteReturn(breaker.name, "it answers again, or another server has taken its place");
}

function isAnswered(probe: Probe): boolean {
  const [ran, answered] = pcall(probe);
  if (!ran) noteDefect("redis", "a probe of Redis broke off", answered);
  return ran && answered === true;
}

/** @returns whether to probe again */
function probeAgain(breaker: Breaker, opening: number, probe: Probe): boolean {
  if (!ngx.worker.exiting()) {
    // The random factor keeps all workers from probing a recovering server at the same moment.
    ngx.sleep(breaker.pauseSeconds * (0.75 + math.random() / 2));
    if (!isOpen(breaker, opening)) return false;
    if (!isAnswered(probe)) {
      breaker.pauseSeconds = math.min(breaker.pauseSeconds * 2, longestPauseSeconds);
      return isOpen(breaker, opening);
    }
  }
  if (isOpen(breaker, opening)) close(breaker);
  return false;
}

/** The probe that a late answer started may have closed the breaker meanwhile, and a failure may have opened it again. */
function isOpen({ open: isStillOpen, openings }: Breaker, opening: number): boolean {
  return isStillOpen && openings === opening;
}
