// How long each test file took when somebody last ran `npm test -- --keep-durations`. The longest begin first, so that none of them is
// left alone at the end while other processors have nothing to do. A file that is not there yet counts as a short one.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FileReport } from "./file-report.ts";

const path = join(import.meta.dirname, "durations.json");

/** Files below this need no order. */
const leastSeconds = 2;

/** @returns seconds by project and file */
export function keptDurations(): Readonly<Record<string, number>> {
  return JSON.parse(readFileSync(path, "utf8"));
}

export function durationKey(project: string, file: string): string {
  return `${project}: ${file}`;
}

export function keepDurations(reports: readonly FileReport[]): void {
  const long = reports.filter(({ seconds }) => seconds >= leastSeconds);
  const entries = long.map(({ project, file, seconds }) => [durationKey(project, file), Math.round(seconds)] as const);
  entries.sort(([a, aSeconds], [b, bSeconds]) => bSeconds - aSeconds || (a < b ? -1 : 1));
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`);
}
