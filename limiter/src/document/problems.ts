// What is wrong with a document, as a list that stays short however much is wrong: it is logged, sent and shown whole.

/** One thing wrong with a document. */
export interface Problem {
  /** Where: "limits[0].window"; "" is the document itself. */
  path: string;
  expected: string;
  got: string;
}

export const maxProblems = 100;

export interface Findings {
  readonly problems: Problem[];
  /** How many there were beyond those. */
  more: number;
}

export function noFindings(): Findings {
  return { problems: [], more: 0 };
}

export function addProblem(findings: Findings, problem: Problem): void {
  if (findings.problems.length < maxProblems) findings.problems.push(problem);
  else findings.more += 1;
}

/** The problems that were kept, and when there were more, one last that says how many. */
export function listProblems({ problems, more }: Findings): Problem[] {
  if (more > 0)
    problems.push({ path: "", expected: `no more than these ${maxProblems} problems`, got: `${more} more` });
  return problems;
}
