// Warnings: the policy is valid, but one of its settings changes nothing, or a field that it leaves out reaches further than its author may
// think. Whoever writes the default down has thought of it. The warnings go to whoever puts the policy, and do not prevent it.

import { lifetimeWindowUs } from "../algorithms/fixed-window.ts";
import type { Limit } from "../algorithms/limit.ts";
import { capacity, rateOf } from "../algorithms/rate.ts";
import { isOfCredentials } from "../key/credential.ts";
import { type KeyPart, keyPartText } from "../key/key-part.ts";
import { leaseParameters } from "../lease/holder.ts";
import { isLeasable, leastLeasedUs } from "../lease/ledger.ts";
import { formatDuration } from "./duration.ts";
import type { Override, Policy } from "./policy.ts";
import { addProblem, type Findings, listProblems, noFindings, type Problem } from "./problems.ts";

const inVain = "; as it is, Redis decides every request in spite of leased";

/** @returns the warnings as problems: the field, what would give it an effect, and what it has */
export function warningsOf(policy: Policy): Problem[] {
  const findings = noFindings();
  const { scope, consistency, onStoreFailure, maxStoreWaitUs } = policy;
  if (scope === "node") {
    if (consistency === "leased") {
      addProblem(findings, {
        path: "consistency",
        expected: "exact, or scope cluster: on a node nothing is leased",
        got: '"leased"',
      });
    }
    if (onStoreFailure !== "local") {
      addProblem(findings, {
        path: "onStoreFailure",
        expected: "nothing, or scope cluster: a node asks nobody who could fail",
        got: `"${onStoreFailure}"`,
      });
    }
    if (maxStoreWaitUs !== undefined) {
      addProblem(findings, {
        path: "maxStoreWait",
        expected: "nothing, or scope cluster: a node waits for nobody",
        got: `"${maxStoreWaitUs / 1000}ms"`,
      });
    }
  } else if (consistency === "leased") {
    findWhatIsNotLeased(policy, findings);
  }
  return listProblems(findings);
}

/**
 * @param document of the policy, as its author wrote it
 * @returns warnings of defaults that let the policy reach further than its author may think
 */
export function surprisesOf({ mode, match, key }: Policy, document: unknown): Problem[] {
  const findings = noFindings();
  if (mode === "off") return [];
  const written = document as { readonly key?: unknown; readonly onMissingKey?: unknown };
  const { hosts, paths, methods, headers } = match;
  const isOfAll = hosts.length + paths.length + methods.length + Object.keys(headers).length === 0;
  if (isOfAll && written.key === undefined) {
    addProblem(findings, {
      path: "key",
      expected: 'a key, like ["ip"]; or ["const:all"], if all clients are meant to share one counter',
      got: "nothing: every request of every client uses one counter, so that one client can use up what all have",
    });
  }
  const chosen = key.find(isLeftToClients);
  if (chosen !== undefined && written.onMissingKey === undefined) {
    addProblem(findings, {
      path: "onMissingKey",
      expected: "deny or shared; or skip, if requests without the key are meant to pass uncounted",
      got: `nothing: a request without ${keyPartText(chosen)} passes uncounted`,
    });
  }
  return listProblems(findings);
}

/** @returns a warning if clients' credentials are to be stored as the ids of consumers */
export function exposuresOf({ plans, key }: Policy): Problem[] {
  const first = key[0];
  if (plans === undefined || plans.by !== undefined || first === undefined || !isOfCredentials(first)) return [];
  const expected = 'a part that says who the client is and is no credential, like "jwt:sub" or "header:x-customer"';
  const got = `${keyPartText(first)}: the ids of consumers are credentials then, as they are in the database, in its backups, on the gateways' disks and in URLs`;
  return [{ path: "key[0]", expected, got }];
}

/** Whether a client decides if the request has this part. */
function isLeftToClients({ source }: KeyPart): boolean {
  return source === "header" || source === "cookie" || source === "query" || source === "form" || source === "jwt";
}

function findWhatIsNotLeased({ limits, plans, overrides, cost, costSource }: Policy, findings: Findings): void {
  if (plans !== undefined) {
    addProblem(findings, { path: "consistency", expected: `exact, with plans${inVain}`, got: '"leased"' });
    return;
  }
  if (costSource !== undefined && costSource.from === "response-bytes") {
    addProblem(findings, {
      path: "cost.from",
      expected: `a cost that is known before the response${inVain}`,
      got: '"response-bytes"',
    });
    return;
  }
  const least = costSource === undefined ? cost : 1;
  for (let i = 0; i < limits.length; i++) {
    const hindrance = hindranceOf(limits[i] as Limit, least);
    if (hindrance !== undefined) addProblem(findings, { ...hindrance, path: `limits[${i}].${hindrance.path}` });
  }
  // Problems of the policy's own limits have been reported already; an override may share these limits.
  if (findings.problems.length > 0 || overrides === undefined) return;
  for (let i = 0; i < overrides.length; i++) {
    for (const limit of (overrides[i] as Override).limits) {
      const hindrance = hindranceOf(limit, least);
      if (hindrance === undefined) continue;
      const { path, expected, got } = hindrance;
      addProblem(findings, { path: `overrides[${i}].limits`, expected: `"${limit.name}": ${path} ${expected}`, got });
    }
  }
}

/**
 * Returns why units of the limit are not leased; its path is the limit's field.
 *
 * @param cost of a request, or the least that it may be
 */
function hindranceOf(limit: Limit, cost: number): Problem | undefined {
  const { algorithm } = limit;
  const rate = rateOf(limit);
  if (!isLeasable(rate, leaseParameters)) return tooShort(limit);
  // Without a lease, there is one call to Redis for each request.
  if (capacity(rate) >= cost * 2) return undefined;
  const path = algorithm === "token-bucket" ? "burst" : "quota";
  return {
    path,
    expected: `at least ${cost * 2}, for two requests: a lease for one saves no call to Redis`,
    got: `${capacity(rate)}`,
  };
}

function tooShort({ algorithm, quota, windowUs, burst, precisionUs, warmUpUs }: Limit): Problem {
  const leastUs = leastLeasedUs(leaseParameters);
  const leastMs = leastUs / 1000;
  if (warmUpUs !== undefined) {
    return { path: "warmUp", expected: `nothing${inVain}`, got: `"${formatDuration(warmUpUs)}"` };
  }
  if (algorithm === "token-bucket") {
    const refilled = Math.ceil((quota * leastUs) / windowUs);
    const expected = `at least ${refilled}, what refills in ${leastMs}ms${inVain}`;
    return { path: "burst", expected, got: `${burst}` };
  }
  if (windowUs === lifetimeWindowUs) {
    return { path: "window", expected: `a duration${inVain}`, got: '"lifetime"' };
  }
  if (algorithm === "fixed-window") {
    return { path: "window", expected: `at least ${leastMs}ms${inVain}`, got: `${windowUs / 1000}ms` };
  }
  if (algorithm === "sliding-window") {
    return { path: "precision", expected: `at least ${leastMs}ms${inVain}`, got: `${precisionUs / 1000}ms` };
  }
  return {
    path: "algorithm",
    expected: `token-bucket, fixed-window or sliding-window${inVain}`,
    got: `"${algorithm}"`,
  };
}
