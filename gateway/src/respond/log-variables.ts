// The variables of nginx that say what was decided: for access logs and maps. nginx.conf declares those that the operator wants, and where
// it declares none, a request costs what it cost without them. docs/operations.md lists what they say.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { isBanEntry } from "../../../limiter/src/state/traffic.ts";
import { neverCompile } from "../runtime/jit.ts";
import type { Denial, Outcome } from "../stores/store.ts";
import { keyOfRequest, keyText } from "./key-text.ts";

/** What a request was told, and by whom. */
export interface LoggedDecision {
  readonly word: "allowed" | "refused" | "banned";
  /** More about it, in the order of the list in docs/operations.md; undefined and false: not this. */
  readonly delayUs?: number;
  readonly overLimit?: boolean;
  readonly shadowRefused?: boolean;
  readonly degraded?: boolean;
  /** Degraded by choice: Redis is overloaded. */
  readonly overloaded?: boolean;
  readonly reason?: string | undefined;
  /** Whose decision it is. Undefined: of no policy. */
  readonly policy: CompiledPolicy | undefined;
  /** The values of its key. Absent: they are read from the request. */
  readonly values?: readonly string[];
  /** The limit that speaks. Absent: none decided. */
  readonly by?: MergedDecision | undefined;
}

const none = "-";
/** The variables that say whose decision it is. */
const speakers = ["sluice_policy", "sluice_limit", "sluice_remaining", "sluice_key"];
const shadowRefused = ",shadow-refused";
/** What is said about a request that goes on. */
const passing = [",delayed", ",over-limit", shadowRefused, ",degraded", ",overloaded"];
/** Which variables nginx has. A worker finds out when it first has something to say. */
const declared: Record<string, boolean | undefined> = {};
let isUnused = false;

/** Returns whether the operator wants to know decisions: whoever decides then says so by one of the functions below. */
export function areLogged(): boolean {
  return !isUnused;
}

/** For a request that one policy decided alone. @param outcome what was decided, if Redis may not have decided it */
export function logMerged(policy: CompiledPolicy, merged: MergedDecision, outcome: Outcome | undefined): void {
  const { allowed, delayUs } = merged;
  logDecision({
    word: allowed ? "allowed" : "refused",
    delayUs: allowed ? delayUs : 0,
    degraded: outcome?.degraded !== undefined,
    overloaded: outcome?.overloaded === true,
    policy,
    by: merged.policy === undefined ? undefined : merged,
  });
}

/** For a request that is refused for another reason than a limit. @param outcome as above */
export function logDenial(policy: CompiledPolicy, reason: Denial["reason"], outcome?: Outcome): undefined {
  if (reason !== "banned") {
    logDecision({ word: "refused", degraded: outcome?.degraded !== undefined, reason, policy });
  } else logDecision({ word: "banned", policy: isBanEntry(policy) ? undefined : policy });
}

/** For a request whose address every app's ban refuses. */
export function logBan(): void {
  logDecision({ word: "banned", policy: undefined });
}

/** For a request whose path or host servers read differently. */
export function logAmbiguous(what: "path" | "host"): void {
  logDecision({ word: "refused", reason: `${what}-ambiguous`, policy: undefined });
}

/** For a request that no policy counts, because at least this one exempts it. Its key need not be there. */
function logExempt(policy: CompiledPolicy): undefined {
  logDecision({ word: "allowed", reason: "exempt", policy });
}

/** For a request that any number of policies decided. @param overLimit it goes on with a mark */
export function logOutcome(outcome: Outcome, overLimit: boolean): undefined {
  const { merged, denial, degraded, overloaded, shadow, exempt, waitedUs } = outcome;
  if (denial !== undefined && denial.reason === "banned") return logDenial(denial.policy, "banned");
  const allowed = denial === undefined && merged.allowed;
  const limited = merged.policy === undefined ? undefined : merged;
  // Who refuses speaks; then who would have; then the limit that is nearest to it.
  const by = denial === undefined ? (allowed ? (shadow ?? limited) : limited) : undefined;
  const policy = denial?.policy ?? by?.policy ?? degraded;
  if (policy === undefined) return exempt === undefined ? undefined : logExempt(exempt);
  logDecision({
    word: allowed ? "allowed" : "refused",
    delayUs: (allowed ? merged.delayUs : 0) + (waitedUs ?? 0),
    overLimit: overLimit && allowed,
    shadowRefused: shadow !== undefined,
    degraded: degraded !== undefined,
    overloaded: overloaded === true,
    reason: denial?.reason,
    policy,
    by,
  });
}

/** The same for a request that was decided before, in another location of nginx: what was said there about its way stays true. */
export function logOutcomeAgain(outcome: Outcome, overLimit: boolean): undefined {
  const words = read("sluice_decision");
  const delay = tonumber(read("sluice_delay")) ?? 0;
  const spoke = speakers.map((name) => read(name));
  assign("sluice_delay", "0.000");
  logOutcome(outcome, overLimit);
  assign("sluice_delay", string.format("%.3f", delay + (tonumber(read("sluice_delay")) ?? 0)));
  const added = read("sluice_decision");
  if (words === undefined || added === undefined || !has(words, "allowed") || !has(added, "allowed")) return;
  assign("sluice_decision", `allowed${passing.filter((word) => has(words, word) || has(added, word)).join("")}`);
  if (!has(words, shadowRefused) || has(added, shadowRefused)) return;
  for (let i = 0; i < speakers.length; i++) assign(speakers[i] as string, spoke[i] ?? none);
}

function has(words: string, word: string): boolean {
  return string.find(words, word, 1, true)[0] !== undefined;
}

function read(name: string): string | undefined {
  return declared[name] ? ngx.var[name] : undefined;
}

export function logDecision(decision: LoggedDecision): void {
  const { policy, by, delayUs = 0 } = decision;
  const isKeyed = policy !== undefined && !isUnread(decision);
  assign("sluice_decision", wordsOf(decision));
  assign("sluice_policy", policy === undefined ? none : `${policy.app}/${policy.name}`);
  assign("sluice_limit", by === undefined ? none : by.limitName);
  assign("sluice_remaining", by === undefined ? none : string.format("%d", by.decision.remaining));
  assign("sluice_delay", string.format("%.3f", delayUs / 1_000_000));
  // Reading the key costs more than the rest.
  if (declared["sluice_key"] === false) return;
  assign("sluice_key", isKeyed ? keyText(policy.policy.key, decision.values ?? keyOfRequest(policy)) : none);
  for (const name in declared) if (declared[name]) return;
  isUnused = true;
}
// It joins texts, calls into nginx and happens for operators who ask for it: nothing is gained by compiling it.
neverCompile(logDecision);

/** Returns whether the key was not read, or could not be. The check API gives the values. */
function isUnread({ reason, values }: LoggedDecision): boolean {
  return reason === "key-missing" || reason === "key-ambiguous" || (reason === "exempt" && values === undefined);
}

function wordsOf({
  word,
  delayUs = 0,
  overLimit,
  shadowRefused,
  degraded,
  overloaded,
  reason,
}: LoggedDecision): string {
  let words: string = word;
  if (delayUs > 0) words += ",delayed";
  if (overLimit) words += ",over-limit";
  if (shadowRefused) words += ",shadow-refused";
  if (degraded) words += ",degraded";
  if (overloaded) words += ",overloaded";
  return reason === undefined ? words : `${words},${reason}`;
}

function assign(name: string, value: string): void {
  if (declared[name] === false) return;
  if (declared[name]) {
    ngx.var[name] = value;
    return;
  }
  // nginx refuses to change a variable that its configuration does not declare.
  declared[name] = pcall(() => {
    ngx.var[name] = value;
  })[0];
}
