// A unified diff, line by line, as the page shows it.

export interface DiffLine {
  readonly kind: "added" | "removed" | "same" | "place";
  readonly text: string;
  /** Unique within the diff. */
  readonly id: number;
}

/** @param diff as the control plane writes it: names of both files, then places ("@@ … @@") with lines that begin with " ", "+" or "-" */
export function diffLinesOf(diff: string): DiffLine[] {
  return diff
    .split("\n")
    .map((text, id) => ({ kind: kindOf(text), text, id }))
    .filter(({ text }) => text !== "" && !/^(---|\+\+\+|===|Index:|\\)/.test(text));
}

function kindOf(line: string): DiffLine["kind"] {
  if (line.startsWith("@@")) return "place";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "same";
}
