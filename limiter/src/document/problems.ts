// Lists what is wrong with a document. The list stays short however much is wrong, because it is logged, sent and shown whole.

/** One thing that is wrong with a document. */
export interface Problem {
  /** The field, like "limits[0].window"; "" is the document itself. */
  path: string;
  expected: string;
  got: string;
}

export const maxProblems = 100;

export interface Findings {
  readonly problems: Problem[];
  /** The number of further problems, which are not listed. */
  more: number;
}

export function noFindings(): Findings {
  return { problems: [], more: 0 };
}

export function addProblem(findings: Findings, problem: Problem): void {
  if (findings.problems.length < maxProblems) findings.problems.push(problem);
  else findings.more += 1;
}

/** Replaces an earlier problem of the same field: rules between fields know better than shapes what the field may be. */
export function replaceProblem(findings: Findings, problem: Problem): void {
  const { problems } = findings;
  const earlier = problems.findIndex(({ path }) => path === problem.path);
  if (earlier >= 0) problems[earlier] = problem;
  else addProblem(findings, problem);
}

/** Returns how many problems were found, including those that are not listed. */
export function problemCount({ problems, more }: Findings): number {
  return problems.length + more;
}

/** Returns the problems that were kept. If there were more, one last entry gives their number. */
export function listProblems({ problems, more }: Findings): Problem[] {
  if (more > 0)
    problems.push({ path: "", expected: `no more than these ${maxProblems} problems`, got: `${more} more` });
  return problems;
}
