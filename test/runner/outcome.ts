// What a whole run says in the end. A file that failed has a second chance, alone: if it passes, it is unstable, which is said and does
// not fail the run. More than three unstable files do, because then nothing that passed can be believed either.

import type { FileReport, RunReport } from "./file-report.ts";

export const mostUnstable = 3;

/** Beyond this many, files are not run again: the run fails whatever they do. */
export const mostSecondChances = 10;

const mostSlowest = 10;
const mostLinesOfError = 6;

/** Suites other than vitest: style and types, and the Lua specs. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
}

export interface Outcome extends Counts {
  /** What is said before the counts, by paragraph. */
  readonly paragraphs: readonly string[];
}

export function failedFiles(reports: readonly RunReport[]): FileReport[] {
  return reports.flatMap(({ files }) => files).filter(({ failures }) => failures.length > 0);
}

/** @param second what the files that failed did when they ran once more; those that did not run again are not there */
export function outcomeOf(
  reports: readonly RunReport[],
  second: readonly FileReport[],
  others: readonly Counts[],
): Outcome {
  const again = (first: FileReport) =>
    second.find(({ project, file }) => project === first.project && file === first.file);
  const failed = failedFiles(reports);
  const unstable = failed.filter((first) => again(first)?.failures.length === 0);
  const last = reports.flatMap(({ files }) => files).map((first) => again(first) ?? first);
  const errors = reports.flatMap((report) => report.errors);

  const failures = [
    ...last.flatMap(linesOfFailures),
    ...errors.map((error) => `  outside of all files: ${firstLines(error)}`),
  ];
  const tooMany = unstable.length > mostUnstable;
  const paragraphs = [
    paragraph("the slowest files", slowestFiles(reports)),
    paragraph("unstable: failed at first, passed when run again alone", unstable.flatMap(linesOfFailures)),
    tooMany ? `expected at most ${mostUnstable} unstable files, got ${unstable.length}: the run fails` : "",
    paragraph("the failed tests", failures),
  ];
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  return {
    passed: sum(last.map(({ passed }) => passed)) + sum(others.map(({ passed }) => passed)),
    failed:
      sum(last.map((file) => file.failures.length)) +
      errors.length +
      (tooMany ? unstable.length : 0) +
      sum(others.map(({ failed }) => failed)),
    paragraphs: paragraphs.filter((text) => text !== ""),
  };
}

function paragraph(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : `${title}:\n${lines.join("\n")}`;
}

function slowestFiles(reports: readonly RunReport[]): string[] {
  return reports
    .flatMap(({ files }) => files)
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, mostSlowest)
    .map(({ project, file, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${file} (${project})`);
}

function linesOfFailures({ project, file, failures }: FileReport): string[] {
  return failures.map(({ test, error }) => {
    const where = test === undefined ? "" : `${test}: `;
    return `  ${file} (${project}): ${where}${firstLines(error)}`;
  });
}

function firstLines(text: string): string {
  return text.split("\n").slice(0, mostLinesOfError).join("\n    ");
}
