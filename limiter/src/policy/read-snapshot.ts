// From the bytes' meaning to the set that requests are decided by: every policy validated again, compiled and indexed;
// bans and callers validated as well. A snapshot is taken whole or refused whole.

import { indexPolicies, type PolicyIndex } from "../match/policy-index.ts";
import { type BansByPlace, bansOn, sortBans } from "./bans.ts";
import { readBans, readCallers } from "./bans-and-callers.ts";
import { type CompiledPolicy, compilePolicy } from "./compile.ts";
import { addProblem, type Findings, listProblems, noFindings, type Problem } from "./problems.ts";
import type { Zones } from "./schedule.ts";
import { isName, nameRule } from "./shape.ts";
import { type SnapshotBan, type SnapshotCaller, snapshotFormat } from "./snapshot.ts";
import { describeValue, validatePolicy } from "./validate.ts";

export type { SnapshotBan, SnapshotCaller } from "./snapshot.ts";

export interface CompiledSnapshot {
  readonly epoch: string;
  readonly revision: number;
  readonly policies: readonly CompiledPolicy[];
  readonly index: PolicyIndex;
  /** Those that are over by now may be among them: look at untilSeconds. */
  readonly bans: readonly SnapshotBan[];
  readonly callers: readonly SnapshotCaller[];
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
  const { format, epoch, revision, policies, bans, callers, zones = {} } = message as Record<string, unknown>;
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
  if (typeof zones !== "object" || zones === null) {
    addProblem(findings, { path: "zones", expected: "an object", got: describeValue(zones) });
    return { problems: listProblems(findings) };
  }
  const compiled: CompiledPolicy[] = [];
  const bansRead = readBans(bans, findings);
  const context: Context = { zones: zones as Zones, bans: sortBans(findings.problems.length === 0 ? bansRead : []) };
  for (let i = 0; i < policies.length; i++) readPolicy(policies[i], `policies[${i}]`, context, compiled, findings);
  const callersRead = readCallers(callers, findings);
  const problems = listProblems(findings);
  if (problems.length > 0) return { problems };
  return {
    snapshot: {
      epoch: epoch as string,
      revision: revision as number,
      policies: compiled,
      index: indexPolicies(compiled),
      bans: bansRead,
      callers: callersRead,
    },
    problems,
  };
}

/** What policies are compiled with. */
interface Context {
  readonly zones: Zones;
  readonly bans: BansByPlace;
}

function readPolicy(
  entry: unknown,
  path: string,
  { zones, bans }: Context,
  compiled: CompiledPolicy[],
  findings: Findings,
): void {
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
  const { policy } = validation;
  if (policy === undefined) return;
  if (policy.schedule === undefined || checkZone(policy.schedule.timezone, zones, findings)) {
    compiled.push(compilePolicy(app, policy, zones, bansOn(bans, app, policy.name, policy.key)));
  }
}

/** Looks at the zones that schedules name, and at no other. */
function checkZone(timezone: string, zones: Zones, findings: Findings): boolean {
  const transitions: unknown = zones[timezone];
  if (Array.isArray(transitions) && transitions.length > 0 && transitions.every((entry) => isTransition(entry)))
    return true;
  addProblem(findings, {
    path: `zones.${timezone}`,
    expected: "a list of [seconds since the epoch, minutes before UTC]",
    got: describeValue(transitions),
  });
  return false;
}

function isTransition(entry: unknown): boolean {
  if (!Array.isArray(entry) || entry.length !== 2) return false;
  const [fromSeconds, offsetMinutes] = entry;
  return isWhole(fromSeconds) && isWhole(offsetMinutes) && offsetMinutes > -1440 && offsetMinutes < 1440;
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Math.floor(value) === value;
}
