// Remembers which policy a line of a snapshot's text was read as. It uses several tables: a single one of ten thousand lines
// would keep every request waiting each time that it grows and is laid out anew.

import { emptyTable } from "../basics/table.ts";
import type { CompiledPolicy } from "../compiled/compile.ts";

const linesTogether = 1024;

export interface PoliciesByLine {
  readonly parts: Record<string, CompiledPolicy>[];
  /** How many lines the last part has. */
  inLast: number;
  /** The part in which a line was last found: the next line is usually there too. */
  lastFound: number;
}

export function noLines(): PoliciesByLine {
  return { parts: [], inLast: linesTogether, lastFound: 0 };
}

export function addLine(lines: PoliciesByLine, line: string, policy: CompiledPolicy): void {
  if (lines.inLast === linesTogether) {
    lines.parts.push(emptyTable());
    lines.inLast = 0;
  }
  (lines.parts[lines.parts.length - 1] as Record<string, CompiledPolicy>)[line] = policy;
  lines.inLast += 1;
}

/** Returns the policy of a line. It is cheapest for lines in the order in which they were added. */
export function policyOfLine(lines: PoliciesByLine, line: string): CompiledPolicy | undefined {
  const { parts } = lines;
  for (let i = 0; i < parts.length; i++) {
    const place = (lines.lastFound + i) % parts.length;
    const policy = (parts[place] as Record<string, CompiledPolicy>)[line];
    if (policy === undefined) continue;
    lines.lastFound = place;
    return policy;
  }
  return undefined;
}
