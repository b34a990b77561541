// Prints what a mutation run found: what survived, and the score of each file.

/** What we read of a report, in the format of mutation-testing-report-schema. */
export interface Report {
  readonly files: Readonly<Record<string, { readonly source: string; readonly mutants: readonly Mutant[] }>>;
}

export interface Mutant {
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly status: "Killed" | "Timeout" | "Survived" | "NoCoverage" | "Ignored" | "RuntimeError" | "CompileError";
  readonly location: { readonly start: Place; readonly end: Place };
}

interface Place {
  readonly line: number;
  readonly column: number;
}

/**
 * Prints the survivors, the score of each file, and that of all.
 *
 * @returns killed mutants, those that made tests run for ever among them, of all that are valid, in percent: of all files, and of
 *   the file that has the fewest
 */
export function printScores(files: Report["files"], title: string): { all: number; lowest: number } {
  let [allKilled, all] = [0, 0];
  let lowest = 100;
  const survivors: string[] = [];
  const lines: string[] = [];
  for (const [file, { source, mutants }] of Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const killed = mutants.filter(({ status }) => status === "Killed" || status === "Timeout").length;
    const alive = mutants.filter(({ status }) => status === "Survived" || status === "NoCoverage");
    if (killed + alive.length === 0) continue;
    lines.push(`${percent(killed, killed + alive.length).padStart(7)}  ${killed}/${killed + alive.length}  ${file}`);
    lowest = Math.min(lowest, (100 * killed) / (killed + alive.length));
    allKilled += killed;
    all += killed + alive.length;
    for (const mutant of alive) survivors.push(describe(file, source, mutant));
  }
  process.stdout.write(`${survivors.join("\n")}\n\n${lines.join("\n")}\n`);
  process.stdout.write(`${percent(allKilled, all).padStart(7)}  ${allKilled}/${all}  ${title}\n`);
  return all === 0 ? { all: 0, lowest: 0 } : { all: (100 * allKilled) / all, lowest };
}

/** `limiter/src/x.ts:7:3 a < b → a <= b` */
function describe(
  file: string,
  source: string,
  { location: { start, end }, mutatorName, replacement, status }: Mutant,
): string {
  const lines = source.split("\n").slice(start.line - 1, end.line);
  const last = lines.length - 1;
  const text = lines
    .map((line, i) => line.slice(i === 0 ? start.column - 1 : 0, i === last ? end.column - 1 : undefined).trim())
    .join(" ");
  const unreached = status === "NoCoverage" ? " (no test gets there)" : "";
  return `${file}:${start.line}:${start.column} ${text} → ${replacement?.replace(/\s+/g, " ") ?? mutatorName}${unreached}`;
}

function percent(part: number, whole: number): string {
  return whole === 0 ? "–" : `${((100 * part) / whole).toFixed(2)}%`;
}
