// Prints the results as tables in Markdown, which can be read on a terminal too, and as JSON.

import { table, writeJson } from "../../bench/report.ts";
import type { Fault, Observation } from "./fault.ts";
import { deadlineMs } from "./scenario.ts";

export interface Result {
  readonly fault: Fault;
  readonly observation?: Observation;
  /** Why there is no observation. */
  readonly notRun?: string;
}

export function tableOf(results: readonly Result[]): string {
  const rows = results.flatMap(({ fault, observation, notRun }) => {
    const name = `${fault.number} ${fault.name}`;
    if (observation === undefined) return [[name, "", "", `not run: ${notRun}`, "not run"]];
    return observation.facts.map(({ what, expected, seen, ok }, i) => [
      i === 0 ? name : "",
      what,
      expected,
      seen,
      ok ? "as expected" : "DIFFERS",
    ]);
  });
  const recoveries = results.map(({ fault, observation }) => [
    `${fault.number} ${fault.name}`,
    observation === undefined ? "not run" : recovery(observation),
  ]);
  return [
    ...table(["fault", "what", "expected", "seen", ""], rows),
    "",
    ...table(["fault", "until it has recovered"], recoveries),
  ].join("\n");
}

/** @returns one line for the result, printed while other faults still run */
export function inShort({ observation, notRun }: Result): string {
  if (observation === undefined) return `not run: ${notRun}`;
  const differing = observation.facts.filter(({ ok }) => !ok);
  if (differing.length === 0) return "as expected";
  return differing.map(({ what, expected, seen }) => `${what}: expected ${expected}, seen ${seen}`).join("; ");
}

function recovery({ facts, recoveredAfterMs }: Observation): string {
  if (recoveredAfterMs !== undefined) return `${(recoveredAfterMs / 1000).toFixed(1)} s`;
  return facts.some(({ what, ok }) => !ok && what.startsWith("until")) ? "it did not" : "not interrupted";
}

export function writeResults(file: string, results: readonly Result[]): void {
  writeJson(file, {
    date: new Date().toISOString(),
    deadlineMs,
    faults: results.map(({ fault: { number, name }, ...seen }) => ({ number, name, ...seen })),
  });
}
