// Warns of blanks around the key values of overrides and exemptions: no request at a gateway has such a value.

import type { Policy } from "@sluice/limiter/document/policy.ts";
import { addProblem, listProblems, noFindings, type Problem } from "@sluice/limiter/document/problems.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import { keyPartText } from "@sluice/limiter/key/key-part.ts";
import { hasBlanksAround } from "../schemas/blanks.ts";

/** What gateways read without blanks around it. */
const readWithout: readonly string[] = ["header", "cookie", "query", "form"];

export function blankWarnings({ key, overrides = [], exempt }: Policy): Problem[] {
  const findings = noFindings();
  const look = (patterns: readonly string[], path: string) => {
    for (const [i, part] of key.entries()) {
      const pattern = patterns[i];
      if (pattern === undefined || !readWithout.includes(part.source) || !hasBlanksAround(valueLike(pattern))) continue;
      const expected = `a value without blanks around it, as gateways read ${keyPartText(part)}`;
      addProblem(findings, { path: `${path}[${i}]`, expected, got: describeValue(pattern) });
    }
  };
  for (const [i, override] of overrides.entries()) look(override.key, `overrides[${i}].key`);
  for (const [i, patterns] of (exempt?.keys ?? []).entries()) look(patterns, `exempt.keys[${i}]`);
  return listProblems(findings);
}

/** Returns the shortest value that a pattern may stand for, with a letter for the "*". */
function valueLike(pattern: string): string {
  return pattern.endsWith("*") ? `${pattern.slice(0, -1)}x` : pattern;
}
