// From the bytes' meaning to the set that requests are decided by: every policy validated again, compiled and indexed.
// A snapshot is taken whole or refused whole.

import { indexPolicies, type PolicyIndex } from "../match/policy-index.ts";
import { type CompiledPolicy, compilePolicy } from "./compile.ts";
import { addProblem, type Findings, listProblems, noFindings, type Problem } from "./problems.ts";
import { isName, nameRule } from "./shape.ts";
import { snapshotFormat } from "./snapshot.ts";
import { describeValue, validatePolicy } from "./validate.ts";

/** Who may ask by the ask-first API. */
export interface SnapshotCaller {
  readonly app: string;
  /** Of its token, 64 hex digits in lower case. */
  readonly sha256: string;
  /** Since the epoch; absent: never. */
  readonly expiresAtSeconds?: number;
}

export interface CompiledSnapshot {
  readonly epoch: string;
  readonly revision: number;
  readonly policies: readonly CompiledPolicy[];
  readonly index: PolicyIndex;
  /** Absent: none. */
  readonly callers?: readonly SnapshotCaller[];
}

export interface SnapshotReading {
  /** Present when there are no problems. */
  snapshot?: CompiledSnapshot;
  problems: Problem[];
}

/** @param message as parsed from JSON, from anyone. Never throws. */
export function readSnapshot(message: unknown): SnapshotReading {
  const findings = noFindings();
  if (typeof message !== "object" || message === null) {
    return { problems: [{ path: "", expected: "a snapshot", got: describeValue(message) }] };
  }
  const { format, epoch, revision, policies, callers } = message as Record<string, unknown>;
  if (format !== snapshotFormat) {
    addProblem(findings, { path: "format", expected: `${snapshotFormat}`, got: describeValue(format) });
    return { problems: listProblems(findings) };
  }
  if (typeof epoch !== "string" || epoch === "") {
    addProblem(findings, { path: "epoch", expected: "a non-empty text", got: describeValue(epoch) });
  }
  if (typeof revision !== "number" || revision < 0 || Math.floor(revision) !== revision) {
    addProblem(findings, { path: "revision", expected: "a whole number", got: describeValue(revision) });
  }
  if (!Array.isArray(policies)) {
    addProblem(findings, { path: "policies", expected: "a list", got: describeValue(policies) });
    return { problems: listProblems(findings) };
  }
  const compiled: CompiledPolicy[] = [];
  for (let i = 0; i < policies.length; i++) readPolicy(policies[i], `policies[${i}]`, compiled, findings);
  const problems = listProblems(findings);
  if (problems.length > 0) return { problems };
  return {
    snapshot: {
      epoch: epoch as string,
      revision: revision as number,
      policies: compiled,
      index: indexPolicies(compiled),
      ...(Array.isArray(callers) ? { callers: callers as SnapshotCaller[] } : {}),
    },
    problems,
  };
}

function readPolicy(entry: unknown, path: string, compiled: CompiledPolicy[], findings: Findings): void {
  if (typeof entry !== "object" || entry === null) {
    addProblem(findings, { path, expected: "an object", got: describeValue(entry) });
    return;
  }
  const { app, document } = entry as Record<string, unknown>;
  if (typeof app !== "string" || !isName(app)) {
    addProblem(findings, { path: `${path}.app`, expected: nameRule, got: describeValue(app) });
    return;
  }
  const validation = validatePolicy(document);
  for (const problem of validation.problems) {
    const inner = problem.path === "" ? "" : `.${problem.path}`;
    addProblem(findings, { path: `${path}.document${inner}`, expected: problem.expected, got: problem.got });
  }
  if (validation.policy !== undefined) compiled.push(compilePolicy(app, validation.policy));
}
