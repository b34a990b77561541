// POST /sluice/v1/check: decides up to a hundred checks at once, all or nothing.

import { never } from "../../../limiter/src/algorithms/decision.ts";
import { isEndless, retryAfterSeconds, wholeSeconds } from "../../../limiter/src/header-values.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { countCheckRequest } from "../metrics/counts.ts";
import { readHeader } from "../request/request-headers.ts";
import type { Settings } from "../settings.ts";
import { currentCaller } from "./caller-tokens.ts";
import { type CheckError, sendProblem, unauthorized } from "./check-errors.ts";
import { allAllowed, decideRequestedChecks, type Outcome } from "./decide.ts";
import { mostBodyBytes, readChecks } from "./request-body.ts";
import { readRequestedChecks } from "./requested-policy.ts";

const tooLarge: CheckError = {
  code: "body-too-large",
  detail: `The body is larger than ${mostBodyBytes} bytes. Nothing was charged.`,
};

export function check(settings: Settings): void {
  const error = answer(settings);
  if (error !== undefined) sendProblem(error);
}

/** Called when nginx itself refuses a body as too large. */
export function bodyTooLarge(): void {
  sendProblem(tooLarge);
}

function answer(_settings: Settings): CheckError | undefined {
  if (ngx.req.get_method() !== "POST") {
    ngx.header["Allow"] = "POST";
    return { code: "method-not-allowed", detail: "Ask by POST." };
  }
  const caller = currentCaller();
  if (caller === undefined) return unauthorized;
  if (!isJson(readHeader("content-type"))) {
    return { code: "unsupported-media-type", detail: "Send Content-Type: application/json." };
  }
  ngx.req.read_body();
  const body = ngx.req.get_body_data();
  if (body === undefined) {
    if (ngx.req.get_body_file() !== undefined) return tooLarge;
    return { code: "malformed-body", detail: "There is no body. Nothing was charged." };
  }
  if (body.length > mostBodyBytes) return tooLarge;
  const [written, bodyError] = readChecks(body);
  if (written === undefined) return bodyError;
  const [requested, checkError] = readRequestedChecks(caller, written);
  if (requested === undefined) return checkError;
  send(caller.app, decideRequestedChecks(requested, []));
  return undefined;
}

function isJson(contentType: Reading): boolean {
  if (contentType === undefined || contentType === false) return false;
  if (contentType === "application/json") return true;
  return string.match(string.lower(contentType), "^application/json%s*;")[0] !== undefined;
}

function send(app: string, outcomes: readonly Outcome[]): void {
  const results: string[] = [];
  for (const outcome of outcomes) results.push(resultOf(app, outcome));
  const body = `{"allowed":${allAllowed(outcomes)},"results":[${results.join(",")}]}\n`;
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Cache-Control"] = "no-store";
  ngx.header["Content-Length"] = body.length;
  countCheckRequest(200);
  ngx.print(body);
}

/** Written by hand: none of these texts contains characters that JSON escapes. @param app the caller's; of others, the policy is APP/POLICY */
function resultOf(app: string, { policy, allowed, reason, merged }: Outcome): string {
  const name = policy.app === app ? policy.name : `${policy.app}/${policy.name}`;
  const start = `{"policy":"${name}","allowed":${allowed}`;
  if (reason !== undefined) return `${start},"reason":"${reason}"}`;
  const { decision, delayUs } = merged;
  const { limit, remaining, retryAfterUs, resetAfterUs } = decision;
  const retryAfter = allowed ? "0" : retryAfterUs === never ? "null" : `${retryAfterSeconds(decision)}`;
  const figures = `"limit":${limit},"remaining":${remaining},"retryAfter":${retryAfter}`;
  const delay = allowed && delayUs > 0 ? `,"delay":${delayUs / 1_000_000}` : "";
  const resetAfter = isEndless(decision) ? "null" : `${wholeSeconds(resetAfterUs)}`;
  return `${start},${figures},"resetAfter":${resetAfter}${delay}}`;
}
