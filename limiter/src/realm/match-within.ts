// Checks whether everything that a policy can match is within its app's realm. If not, it reports which field is outside and how
// to write it.

import type { Match } from "../document/policy.ts";
import { addProblem, type Findings, listProblems, noFindings, type Problem } from "../document/problems.ts";
import { describeValue } from "../document/validate.ts";
import { pathPattern } from "../match/path-pattern.ts";
import { beneath, type Realm } from "./realm.ts";
import { type ProofBudget, pathOutside, proofBudget, unproven } from "./regex-within.ts";

/** @returns problems for the fields of a policy's document that reach outside */
export function matchProblems({ hosts, paths }: Match, realm: Realm): Problem[] {
  const findings = noFindings();
  if (realm.hosts.length > 0) checkHosts(hosts, realm.hosts, findings);
  if (realm.paths.length > 0) checkPaths(paths, realm.paths, findings);
  return listProblems(findings);
}

function checkHosts(hosts: readonly string[], own: readonly string[], findings: Findings): void {
  const expected = `hosts within ${list(own)}`;
  if (hosts.length === 0) addProblem(findings, { path: "match.hosts", expected, got: "nothing, which is every host" });
  for (let i = 0; i < hosts.length; i++) {
    const host = hosts[i] as string;
    if (isHostWithin(host, own)) continue;
    addProblem(findings, { path: `match.hosts[${i}]`, expected, got: describeValue(host) });
  }
}

function checkPaths(paths: readonly string[], own: readonly string[], findings: Findings): void {
  const expected = `paths within ${list(own)}`;
  if (paths.length === 0) addProblem(findings, { path: "match.paths", expected, got: "nothing, which is every path" });
  const budget = proofBudget();
  for (let i = 0; i < paths.length; i++) {
    const problem = pathProblem(paths[i] as string, own, expected, budget);
    if (problem !== undefined) addProblem(findings, { ...problem, path: `match.paths[${i}]` });
  }
}

function pathProblem(
  path: string,
  own: readonly string[],
  expected: string,
  budget: ProofBudget,
): Omit<Problem, "path"> | undefined {
  const { kind, text } = pathPattern(path);
  const first = own[0] as string;
  if (kind === "regex") {
    const example = pathOutside(text, own, budget);
    if (example === undefined) return undefined;
    if (example === unproven) {
      const got = `${describeValue(path)}, which takes too long to prove, with those before it`;
      return { expected: `${expected}, in an expression that begins like "~^${first}/"`, got };
    }
    const how = `written like "~^${first}/…", or "~^${first}(/…)?$" where it is to match "${first}" too`;
    return { expected: `${expected}, ${how}`, got: `${describeValue(path)}, which matches ${describeValue(example)}` };
  }
  if (isPathWithin(text, kind === "exact", own)) return undefined;
  const touches = kind === "prefix" ? own.find((one) => one === text) : undefined;
  if (touches === undefined) return { expected, got: describeValue(path) };
  const how = `written "${touches}" and "${beneath(touches)}*"`;
  return {
    expected: `${expected}, ${how}`,
    got: `${describeValue(path)}, which matches ${describeValue(`${touches}x`)}`,
  };
}

/** Returns whether every host that the pattern matches is matched by one of these. */
export function isHostWithin(host: string, own: readonly string[]): boolean {
  const tail = host.startsWith("*.") ? host.slice(1) : host;
  for (const one of own) {
    if (one === host || (one.startsWith("*.") && tail.endsWith(one.slice(1)))) return true;
  }
  return false;
}

/** @param text an exact path, or the beginning of paths */
function isPathWithin(text: string, isExact: boolean, own: readonly string[]): boolean {
  for (const one of own) {
    if ((isExact && text === one) || text.startsWith(beneath(one))) return true;
  }
  return false;
}

/** Shows at most ten: a realm may have very many. */
function list(own: readonly string[]): string {
  return own.length > 10 ? `${own.slice(0, 10).join(", ")}, …` : own.join(", ");
}
