// Translates what a caller wrote into what is decided: the policy of its app, and the key values as the gateway would have read
// them from a request.

import { type CompiledPolicy, hasPlan } from "../../../limiter/src/compiled/compile.ts";
import { encodeKeyValues } from "../../../limiter/src/compiled/counter-key.ts";
import { formatDuration } from "../../../limiter/src/document/duration.ts";
import { addProblem, type Findings, listProblems, noFindings } from "../../../limiter/src/document/problems.ts";
import { describeValue } from "../../../limiter/src/document/validate.ts";
import { addressGroups, ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import type { KeyPart } from "../../../limiter/src/key/key-part.ts";
import { slotLimits } from "../charging/named-holds.ts";
import { limitsFor } from "../request/applicability.ts";
import { sha1Hex } from "../request/key-values.ts";
import { policiesOf } from "../snapshot/current.ts";
import { slotLifeMs } from "../stores/hold-marks.ts";
import { mostCountersAtOnce } from "../stores/redis/refunds.ts";
import type { Caller } from "./caller-tokens.ts";
import type { CheckError } from "./check-errors.ts";
import type { RequestedCheck } from "./decide.ts";

/** Slots that are held for less would be free before their caller could renew them. */
const shortestTtlUs = 1_000_000;

export const aPlan = "the name of one of the policy's plans";

/** One check as the caller wrote it; its types are valid. */
export interface Written {
  readonly policy: string;
  readonly key: readonly string[];
  /** Undefined: the policy's cost. */
  readonly cost: number | undefined;
  /** Undefined: the plan that the key or the consumer has, or the default plan. */
  readonly plan: string | undefined;
  /** Whether it only looks, and charges nothing. */
  readonly isPeek: boolean;
  /** Whether it charges what was used already, beyond what is left too. */
  readonly isReport: boolean;
  /** How long it may wait for its units. 0: not at all. */
  readonly maxWaitUs: number;
  /** For how long slots are held that are not renewed. 0: for as long as they live. */
  readonly ttlUs: number;
  /** The place in the request: "checks[0].", or "" if the check is the whole request. */
  readonly path: string;
}

/**
 * @param holds whether the caller holds slots until it releases them
 * @returns the checks to decide; or what is wrong, and then nothing is decided
 */
export function readRequestedChecks(
  caller: Caller,
  written: readonly Written[],
  holds: boolean,
): LuaMultiReturn<[requested: RequestedCheck[] | undefined, error: CheckError | undefined]> {
  const policies: CompiledPolicy[] = [];
  const unknown = noFindings();
  for (const { policy: name, path } of written) {
    const policy = policyFor(caller, name);
    if (policy !== undefined) policies.push(policy);
    else
      addProblem(unknown, {
        path: `${path}policy`,
        expected: `a policy of app ${caller.app}, or APP/POLICY of one that is shared with it`,
        got: describeValue(name),
      });
  }
  if (policies.length < written.length) {
    const detail = `App ${caller.app} has no such policy. Nothing was charged.`;
    return $multi(undefined, { code: "policy-not-found", detail, errors: listProblems(unknown) });
  }

  const unaskable = noFindings();
  const wrong = noFindings();
  const requested: RequestedCheck[] = [];
  let counters = 0;
  for (let i = 0; i < written.length; i++) {
    const policy = policies[i] as CompiledPolicy;
    const asked = written[i] as Written;
    const { isPeek, isReport, path } = asked;
    checkPlan(caller, policy, asked, wrong);
    const check = requestedCheckOf(policy, asked, holds, wrong);
    const { applied } = check;
    if (holds && !applied.policy.holdsSlots) {
      const expected = "a policy with a limit of concurrency: others have no slots to hold";
      addProblem(unaskable, { path: `${path}policy`, expected, got: describeValue(policy.name) });
      continue;
    }
    if (applied.policy.holdsSlots && !isPeek && !holds) {
      const why = isReport
        ? "slots are not used up"
        : "/sluice/v1/hold takes slots, and its callers say when they are free again";
      const expected = `a policy without limits of concurrency: ${why}`;
      addProblem(unaskable, { path: `${path}policy`, expected, got: describeValue(policy.name) });
      continue;
    }
    if (isReport && policy.app !== caller.app) {
      // Another app's callers could make any key owe units for years.
      const expected = `a policy of app ${caller.app}: those of other apps can be asked, and nothing can be reported to them`;
      addProblem(unaskable, { path: `${path}policy`, expected, got: describeValue(`${policy.app}/${policy.name}`) });
      continue;
    }
    if (policy.policy.deferred && isReport && asked.cost === undefined) {
      const expected = "how many bytes the response had: they are the cost of this policy";
      addProblem(wrong, { path: `${path}cost`, expected, got: "nothing" });
      continue;
    }
    if (policy.policy.deferred && !isReport) {
      const expected = "a policy whose cost is not response-bytes: report how many they were";
      addProblem(unaskable, { path: `${path}policy`, expected, got: describeValue(policy.name) });
      continue;
    }
    if (holds) checkTtl(asked, applied, wrong);
    counters += applied.limits.length;
    requested.push(check);
  }
  if (unaskable.problems.length > 0) {
    const detail = "These policies cannot be asked in this way. Nothing was charged.";
    return $multi(undefined, { code: "policy-not-askable", detail, errors: listProblems(unaskable) });
  }
  if (counters > mostCountersAtOnce) {
    addProblem(wrong, {
      path: "checks",
      expected: `policies that have at most ${mostCountersAtOnce} limits together`,
      got: `${counters}`,
    });
  }
  if (wrong.problems.length > 0) {
    const detail = "The policy does not count by this. Nothing was charged.";
    return $multi(undefined, { code: "invalid-request", detail, errors: listProblems(wrong) });
  }
  return $multi(requested, undefined);
}

/** Returns the caller's policy of this name. A policy that is not shared with the caller's app is as unknown as one that does not exist. */
export function policyFor({ app }: Caller, name: string): CompiledPolicy | undefined {
  const [owner, ofOwner] = string.match(name, "^([^/]+)/([^/]+)$");
  if (owner === undefined || ofOwner === undefined) return policiesOf(app)[name];
  const policy = policiesOf(owner)[ofOwner];
  if (policy === undefined || owner === app) return policy;
  const { sharedWith } = policy.policy;
  return sharedWith?.includes(app) === true ? policy : undefined;
}

/** A caller names a plan only where nothing else says which one it is. One that is misspelt would quietly be the default plan. */
function checkPlan(caller: Caller, policy: CompiledPolicy, { plan, path }: Written, wrong: Findings): void {
  if (plan === undefined) return;
  const decidedBy = whatDecidesPlan(caller, policy);
  if (decidedBy === undefined && hasPlan(policy, plan)) return;
  const expected = decidedBy === undefined ? aPlan : `nothing: ${decidedBy}`;
  addProblem(wrong, { path: `${path}plan`, expected, got: describeValue(plan) });
}

/** @returns undefined: the caller does */
function whatDecidesPlan({ app }: Caller, policy: CompiledPolicy): string | undefined {
  const { plans } = policy;
  if (policy.app !== app) return `app ${policy.app} decides about the plans of its policies`;
  if (plans === undefined) return "the policy has no plans";
  if (plans.by === undefined) return "the plan is that of the consumer, whom the key names";
  return plans.keyPlace === undefined ? undefined : `key[${plans.keyPlace}] names the plan`;
}

/** Slots that are not renewed are free after the limit's own ttl, so none are held for longer. */
function checkTtl({ ttlUs, path }: Written, { limits }: CompiledPolicy, wrong: Findings): void {
  if (ttlUs === 0) return;
  const lifeUs = slotLifeMs(slotLimits(limits)) * 1000;
  if (ttlUs >= shortestTtlUs && ttlUs <= lifeUs) return;
  const life = formatDuration(lifeUs);
  const range = `a time of ${formatDuration(shortestTtlUs)} to ${life}, for which slots of this policy live`;
  const expected = lifeUs < shortestTtlUs ? `nothing: slots of this policy live for ${life}` : range;
  addProblem(wrong, { path: `${path}ttl`, expected, got: formatDuration(ttlUs) });
}

/** @param wrong receives what is wrong with the key */
function requestedCheckOf(policy: CompiledPolicy, asked: Written, holds: boolean, wrong: Findings): RequestedCheck {
  const { key, plan, isPeek, isReport, maxWaitUs, path } = asked;
  const cost = asked.cost ?? policy.policy.cost;
  const parts = policy.policy.key;
  const count = parts.length;
  if (key.length !== count) {
    const expected = `a list of ${count}: a value for each part of the policy's key`;
    addProblem(wrong, { path: `${path}key`, expected, got: describeValue(key) });
    const refused = { policy, applied: policy, values: key, keyValues: undefined, address: undefined };
    return { ...refused, cost, plan, isPeek, isReport, maxWaitUs, holds };
  }
  const values: string[] = [];
  let isMissing = false;
  let address: string | undefined;
  for (let i = 0; i < count; i++) {
    const part = parts[i] as KeyPart;
    const value = key[i] as string;
    if (value === "") {
      isMissing = true;
    } else if (part.source === "const" && value !== part.name) {
      addProblem(wrong, {
        path: `${path}key[${i}]`,
        expected: describeValue(part.name),
        got: describeValue(value),
      });
    } else if (part.source === "ip") {
      if (!isAddress(value)) {
        const expected = "an IP address, without blanks, port, zone or zeros in front of IPv4's numbers";
        addProblem(wrong, { path: `${path}key[${i}]`, expected, got: describeValue(value) });
      }
      address = value;
      values.push(ipPrefix(value, part.v4Bits, part.v6Bits));
      continue;
    }
    values.push(value);
  }
  const counts = !isMissing || policy.policy.onMissingKey === "shared";
  const keyValues = counts ? encodeKeyValues(values, count, sha1Hex) : undefined;
  const applied = limitsFor(policy, values, plan);
  return { policy, applied, values, keyValues, address, cost, plan, isPeek, isReport, maxWaitUs, holds };
}

/**
 * Other spellings of an address would get a counter of their own, and be in no banned network. Leading zeros are octal to some
 * readers. nginx reports "unix:" for a peer on a socket of the same machine.
 */
function isAddress(text: string): boolean {
  if (text === "unix:") return true;
  if (string.find(text, "%.0%d")[0] !== undefined || string.find(text, "^0%d+%.")[0] !== undefined) return false;
  return string.find(text, ":0%d+%.")[0] === undefined && addressGroups(text) !== undefined;
}
