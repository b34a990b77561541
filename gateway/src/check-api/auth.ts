// GET /sluice/v1/auth?policy=…&key=…: one check for nginx's auth_request, which only uses the status. If a leaky-bucket delays
// the request, it waits here, because auth_request cannot wait by itself.

import { addProblem, type Findings, listProblems, noFindings } from "../../../limiter/src/document/problems.ts";
import { describeValue } from "../../../limiter/src/document/validate.ts";
import { retryAfterSeconds } from "../../../limiter/src/header-values.ts";
import { mayWait, mostOfOnePolicy, waitUs } from "../charging/waiting-requests.ts";
import { countCheckRequest } from "../metrics/counts.ts";
import { setHeaders } from "../respond/headers.ts";
import type { Settings } from "../settings.ts";
import type { Charge } from "../stores/store.ts";
import { type Caller, currentCaller } from "./caller-tokens.ts";
import { type CheckError, sendProblem, unauthorized } from "./check-errors.ts";
import { allAllowed, decideRequestedChecks, longestDelayUs, type Outcome, turnAway } from "./decide.ts";
import {
  aCost,
  aPolicy,
  aValue,
  costToCharge,
  isCost,
  isKeyValue,
  readMaxWait,
  refuseWaitingPeek,
} from "./request-body.ts";
import { aPlan, readRequestedChecks, type Written } from "./requested-policy.ts";
import { beginChecks } from "./under-way.ts";

/** Eight key values, policy, cost, plan, peek, maxWait, and one more to detect that there are too many. */
const mostParameters = 14;
const known = ["policy", "key", "cost", "plan", "peek", "maxWait"];

type Parameter = string | true | (string | true)[] | undefined;

export function auth(settings: Settings): void {
  const error = answer(settings);
  if (error !== undefined) sendProblem(error);
}

function answer(settings: Settings): CheckError | undefined {
  const method = ngx.req.get_method();
  if (method !== "GET" && method !== "HEAD") {
    ngx.header["Allow"] = "GET, HEAD";
    return { code: "method-not-allowed", detail: "Ask by GET." };
  }
  const caller = currentCaller();
  if (caller === undefined) return unauthorized;
  const [written, queryError] = readQuery();
  if (written === undefined) return queryError;
  const [requested, checkError] = readRequestedChecks(caller, [written], false);
  if (requested === undefined) return checkError;
  const overload = beginChecks(caller, requested);
  if (overload !== undefined) return overload;
  const charges: Charge[] = [];
  const outcomes = decideRequestedChecks(caller, requested, charges);
  // Who only looks has nothing to wait for.
  const delayUs = allAllowed(outcomes) && !written.isPeek ? longestDelayUs(outcomes) : 0;
  const mayGoOn = delayUs === 0 || mayWait((outcomes[0] as Outcome).policy, mostOfOnePolicy(), caller.app);
  if (!mayGoOn) turnAway(outcomes[0] as Outcome, charges);
  send(settings, caller, outcomes, mayGoOn ? delayUs : 0);
  return undefined;
}

function readQuery(): LuaMultiReturn<[written: Written | undefined, error: CheckError | undefined]> {
  const [args, failure] = ngx.req.get_uri_args(mostParameters);
  const findings = noFindings();
  if (failure !== undefined) {
    addProblem(findings, {
      path: "",
      expected: "policy, up to 8 of key, cost, plan, peek and maxWait",
      got: "more parameters",
    });
  }
  for (const name in args) {
    if (known.includes(name)) continue;
    addProblem(findings, {
      path: describeValue(name).slice(1, -1),
      expected: `no such parameter; known here: ${known.join(", ")}`,
      got: describeValue(args[name]),
    });
  }
  const policy = args["policy"] as Parameter;
  if (typeof policy !== "string" || policy === "") {
    addProblem(findings, { path: "policy", expected: aPolicy, got: describeValue(policy) });
  }
  const key = keyOf(args["key"], findings);
  const cost = costOf(args["cost"], findings);
  const plan = args["plan"] as Parameter;
  if (plan !== undefined && typeof plan !== "string") {
    addProblem(findings, { path: "plan", expected: aPlan, got: describeValue(plan) });
  }
  const peek = args["peek"] as Parameter;
  if (peek !== undefined && peek !== "true" && peek !== "false") {
    addProblem(findings, { path: "peek", expected: "true or false", got: describeValue(peek) });
  }
  const maxWaitUs = readMaxWait(args["maxWait"], "maxWait", findings);
  const isPeek = peek === "true" || cost === 0;
  if (isPeek) refuseWaitingPeek(maxWaitUs, "maxWait", findings);
  if (findings.problems.length > 0) {
    const detail = "This cannot be decided. Nothing was charged.";
    return $multi(undefined, { code: "invalid-request", detail, errors: listProblems(findings) });
  }
  const charged = costToCharge(cost);
  const ofPlan = plan as string | undefined;
  return $multi(
    {
      policy: policy as string,
      key,
      cost: charged,
      plan: ofPlan,
      isPeek,
      isReport: false,
      maxWaitUs,
      ttlUs: 0,
      path: "",
    },
    undefined,
  );
}

function keyOf(parameter: Parameter, findings: Findings): string[] {
  if (parameter === undefined) return [];
  const values = Array.isArray(parameter) ? parameter : [parameter];
  for (let i = 0; i < values.length; i++) {
    if (!isKeyValue(values[i])) {
      addProblem(findings, { path: `key[${i}]`, expected: aValue, got: describeValue(values[i]) });
    }
  }
  return values as string[];
}

function costOf(parameter: Parameter, findings: Findings): number | undefined {
  if (parameter === undefined) return undefined;
  // Only digits are accepted: "1e9", "0x10" and " 1" are numbers to Lua.
  const digits = typeof parameter === "string" ? string.match(parameter, "^%d+$")[0] : undefined;
  const cost = digits === undefined ? undefined : tonumber(digits);
  if (!isCost(cost)) addProblem(findings, { path: "cost", expected: aCost, got: describeValue(parameter) });
  return cost;
}

function send(settings: Settings, { app }: Caller, outcomes: readonly Outcome[], delayUs: number): void {
  const { reason, merged, policy } = outcomes[0] as Outcome;
  const allowed = allAllowed(outcomes);
  if (reason === undefined) setHeaders(settings.headers, merged);
  if (!allowed) {
    const seconds = reason === undefined ? retryAfterSeconds(merged.decision) : reason === "undecided" ? 1 : undefined;
    if (seconds !== undefined) ngx.header["Retry-After"] = seconds;
  }
  if (delayUs > 0) waitUs(delayUs, policy, undefined, app);
  ngx.header["Cache-Control"] = "no-store";
  const status = allowed ? 204 : reason === "banned" ? 403 : 429;
  ngx.status = status;
  countCheckRequest(status);
  if (!allowed) ngx.header["Content-Length"] = 0;
  // As nothing has been printed, this makes nginx send the status as it is, without an error page.
  ngx.send_headers();
}
