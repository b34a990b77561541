// Defects of Sluice itself: errors that nothing expects. Whoever catches one keeps it from harming clients, and notes it here. So it is
// counted by place, and the metrics, the health of the gateway and the control plane show it.

import { getAged, setAged } from "./aged-entries.ts";
import { addSafely, metricsDict, stateDict } from "./shared-memory.ts";
import { beginLineOf } from "./sparing-log.ts";

/**
 * - access: a request passed without a decision, or was answered 400 because its path could not be read.
 * - check-api: a request of the check API was answered with 500.
 * - log: something that was left to do at the end of a request was not done.
 * - private: the health or the metrics were not shown.
 * - init-worker: a worker began without some of its tasks.
 * - timers: background work broke off.
 * - push: a message of the control plane was not handled, or the connection was given up.
 * - snapshot: a worker did not apply a change of the policies.
 * - redis: a call to Redis, or what follows from its reply, broke off.
 */
export const defectPlaces = [
  "access",
  "check-api",
  "log",
  "private",
  "init-worker",
  "timers",
  "push",
  "snapshot",
  "redis",
] as const;
export type DefectPlace = (typeof defectPlaces)[number];

/** For so long a defect is reported as recent. */
const recentSeconds = 300;
const countKey = "defects:";
const recentKey = "defect:";

const undoings: ((this: void) => void)[] = [];

/** Called by a module as it loads. @param undo called after each defect, before anything yields: puts right what code that broke off has left */
export function afterDefects(undo: (this: void) => void): void {
  undoings.push(undo);
}

/** Called by whoever has caught the error, before anything yields. @param sentence what the defect did */
export function noteDefect(place: DefectPlace, sentence: string, failure: unknown): void {
  undo();
  countDefect(place);
  const more = beginLineOf(place);
  if (more !== undefined) ngx.log(ngx.ERR, "sluice: ", sentence, ": ", `${failure}`, more);
}

/** Counts without a line in the log. */
export function countDefect(place: DefectPlace): void {
  addSafely(metricsDict, countKey + place, 1, 0);
  setAged(stateDict, recentKey + place, true, recentSeconds);
}

/** For a thread of a request: its error goes on to the code that waits for the thread, which notes it, perhaps later. */
export function undoingDefects<Argument>(work: (this: void, argument: Argument) => void, argument: Argument): void {
  const [done, failure] = pcall(work, argument);
  if (done) return;
  undo();
  error(failure, 0);
}

/** Returns how many there were since nginx started, in all workers. */
export function defectCount(place: DefectPlace): number {
  return metricsDict.get<number>(countKey + place)[0] ?? 0;
}

/** Returns the same for all places that had any. */
export function defectCounts(): Partial<Record<DefectPlace, number>> {
  const counts: Partial<Record<DefectPlace, number>> = {};
  for (const place of defectPlaces) {
    const count = defectCount(place);
    if (count > 0) counts[place] = count;
  }
  return counts;
}

/** Returns the places where any worker had a defect lately. */
export function recentDefects(): DefectPlace[] {
  return defectPlaces.filter((place) => getAged(stateDict, recentKey + place, recentSeconds) !== undefined);
}

function undo(): void {
  for (const each of undoings) each();
}
