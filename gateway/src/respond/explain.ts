// The debugging headers: an operator who sends the secret learns in the response's headers which policies matched, which keys
// were charged, which store decided and why the request was refused.

import { never } from "../../../limiter/src/algorithms/decision.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { isBanEntry } from "../../../limiter/src/state/traffic.ts";
import { clearHeader, readHeader } from "../request/request-headers.ts";
import { stopwatchUs, wallSeconds } from "../runtime/stopwatch.ts";
import { leaseKnownSinceUs } from "../stores/lease/leases.ts";
import { refusalKnownSince } from "../stores/redis/refusal-cache.ts";
import { firstKey } from "../stores/redis/slot-groups.ts";
import type { Charge, Check, Outcome } from "../stores/store.ts";

/** On a request: the secret. On a response: one line for each policy, and one for the result. */
const headerName = "x-sluice-debug";
/** If more policies match, only the first are listed: a response's headers must not become too large. */
const mostLines = 32;

/** The data to report about the current request, in the order of evaluation. */
export interface Explanation {
  /** Seconds since the epoch. */
  readonly beganAtSeconds: number;
  /** By the stopwatch. */
  readonly beganAtUs: number;
  readonly met: Met[];
}

interface Met {
  readonly policy: CompiledPolicy;
  readonly keyValues: string | undefined;
  /** Known at once, or a check whose result is read when the request is decided. */
  readonly outcome: string | Check;
}

/** @param secret SLUICE_DEBUG_SECRET @returns undefined: nothing is reported, as in nearly all requests */
export function beginExplanation(secret: string): Explanation | undefined {
  const shown = readHeader(headerName);
  if (shown === undefined || shown === "") return undefined;
  // The upstream must not see the secret.
  clearHeader(headerName);
  // Digests are compared, so that the time of the comparison reveals nothing about the secret.
  if (shown === false || ngx.sha1_bin(shown) !== ngx.sha1_bin(secret)) return undefined;
  return { beganAtSeconds: wallSeconds(), beganAtUs: stopwatchUs(), met: [] };
}

export function explain(
  { met }: Explanation,
  policy: CompiledPolicy,
  keyValues: string | undefined,
  outcome: string | Check,
): void {
  if (met.length < mostLines && !isBanEntry(policy)) met.push({ policy, keyValues, outcome });
}

/** Sets the header before the request goes on or is answered, and before anything is refunded. */
export function reportExplanation(explanation: Explanation, ending: Outcome): void {
  const { met } = explanation;
  const { denial } = ending;
  if (denial !== undefined && isBanEntry(denial.policy)) {
    reportBan(denial.policy.app);
    return;
  }
  const lines = met.length === 0 ? ["no policy is met"] : [];
  for (const { policy, keyValues, outcome } of met) {
    const key = keyValues === undefined ? "" : `; key=${ngx.escape_uri(keyValues)}`;
    const reported = typeof outcome === "string" ? outcome : outcomeOf(outcome, explanation, ending);
    lines.push(`${policy.app}/${policy.name}; ${policy.policy.mode}; ${policy.policy.scope}${key}; ${reported}`);
  }
  if (met.length > 0) lines.push(wholeOf(ending));
  ngx.header["X-Sluice-Debug"] = lines;
}

/** The same for a request that is refused by its address before any policy is evaluated. */
export function reportBan(app: string): void {
  ngx.header["X-Sluice-Debug"] = `refused by a ban of app ${app}`;
}

/** The same for a request whose path or host servers read differently. */
export function reportAmbiguous(what: "path" | "host"): void {
  ngx.header["X-Sluice-Debug"] = `refused: servers read its ${what} differently`;
}

function outcomeOf(check: Check, explanation: Explanation, { merged, charges, denial }: Outcome): string {
  const charge = charges.find(({ chargedAt }) => chargedAt === check.chargedAt);
  // A charge without limits means that onStoreFailure let the request pass.
  if (charge !== undefined && charge.limits.length > 0) return chargedBy(check, charge);
  const refused = refusedBy(check, explanation);
  const isLast = explanation.met[explanation.met.length - 1]?.outcome === check;
  const wentOn = check.separate && (!isLast || (merged.allowed && denial === undefined));
  return wentOn ? `${refused}; went on` : refused;
}

function chargedBy(check: Check, { store }: Charge): string {
  const charged = check.policy.policy.deferred ? "its response will be charged" : "charged";
  const without = check.degraded ? withoutRedis(check) : "";
  if (store === "leased") return `${without}${charged} to a lease`;
  if (store === "exact") return `${charged} in Redis`;
  return store === "share" ? `${without}${charged} to this gateway's share` : charged;
}

function withoutRedis({ overloaded }: Check): string {
  return overloaded ? "without Redis, which is overloaded: " : "without Redis: ";
}

function refusedBy(check: Check, explanation: Explanation): string {
  const { scope, onStoreFailure } = check.policy.policy;
  if (scope === "node") return "refused";
  if (check.degraded) {
    const without = withoutRedis(check);
    if (onStoreFailure === "local") return `${without}refused by this gateway's share`;
    return `${without}${onStoreFailure === "allow" ? "allowed" : "refused"} by onStoreFailure`;
  }
  if (check.allowed !== false) return "not charged";
  return wasKnown(check, explanation) ? "refused as before" : "refused by Redis";
}

/** Returns whether the refusal was known before the request came: refusals that arrive during the request are cached too. */
function wasKnown(check: Check, began: Explanation): boolean {
  const { policy } = check;
  if (policy.policy.store === "leased") {
    const knownSinceUs = leaseKnownSinceUs(check);
    return knownSinceUs > 0 && knownSinceUs < began.beganAtUs;
  }
  const knownSinceSeconds = refusalKnownSince(policy, firstKey(check));
  return knownSinceSeconds > 0 && knownSinceSeconds < began.beganAtSeconds;
}

function wholeOf({ merged, denial }: Outcome): string {
  if (denial !== undefined) {
    const { app, name } = denial.policy;
    return `refused by ${app}/${name}; ${denial.reason === "undecided" ? "onStoreFailure" : denial.reason}`;
  }
  return merged.policy === undefined ? "allowed" : summaryOf(merged, merged.policy);
}

function summaryOf({ allowed, limitName, decision, violated }: MergedDecision, { app, name }: CompiledPolicy): string {
  const { retryAfterUs, remaining } = decision;
  const retry = retryAfterUs === never ? "never" : `${retryAfterUs / 1_000_000} s`;
  const refusal = allowed ? "allowed" : `refused by ${violated.join(" ")}; retry after ${retry}`;
  return `${refusal}; nearest ${app}/${name} ${limitName}; remaining ${remaining} of ${decision.limit}`;
}
