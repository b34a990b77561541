// Every error of the check API. Callers decide by the code, so a code keeps its meaning once it is in use. docs/operations.md has
// the same list, and a test compares the two. A refusal by a limit is not an error.

import type { Problem } from "../../../limiter/src/document/problems.ts";
import { countCheckRequest } from "../metrics/counts.ts";
import { cjson } from "../runtime/lua-modules.ts";

export type CheckErrorCode =
  | "malformed-body"
  | "invalid-request"
  | "policy-not-askable"
  | "unauthorized"
  | "policy-not-found"
  | "method-not-allowed"
  | "body-too-large"
  | "unsupported-media-type"
  | "undecided"
  | "overloaded"
  | "internal";

const statuses: Readonly<Record<CheckErrorCode, number>> = {
  "malformed-body": 400,
  "invalid-request": 400,
  "policy-not-askable": 400,
  unauthorized: 401,
  "policy-not-found": 404,
  "method-not-allowed": 405,
  "body-too-large": 413,
  "unsupported-media-type": 415,
  undecided: 503,
  overloaded: 503,
  internal: 500,
};

const titles: Readonly<Record<CheckErrorCode, string>> = {
  "malformed-body": "Malformed body",
  "invalid-request": "Invalid request",
  "policy-not-askable": "Policy cannot be asked",
  unauthorized: "Unauthorized",
  "policy-not-found": "Policy not found",
  "method-not-allowed": "Method not allowed",
  "body-too-large": "Body too large",
  "unsupported-media-type": "Unsupported media type",
  undecided: "Undecided",
  overloaded: "Overloaded",
  internal: "Internal error",
};

/** Every status that the API answers with. */
export const checkStatuses: readonly number[] = [200, 204, 400, 401, 403, 404, 405, 413, 415, 429, 500, 503];

/** Why a request is not decided. Nothing of it is charged. */
export interface CheckError {
  readonly code: CheckErrorCode;
  readonly detail: string;
  readonly errors?: readonly Problem[];
}

export const unauthorized: CheckError = {
  code: "unauthorized",
  detail: "No token came, or one that is unknown or expired: send Authorization: Bearer TOKEN, with a caller's token.",
};

/** Answers the current request with a problem document (RFC 9457). */
export function sendProblem({ code, detail, errors }: CheckError): void {
  const status = statuses[code];
  const type = `urn:sluice:error:${code}`;
  const body = `${cjson.encode({ type, title: titles[code], status, detail, code, errors })}\n`;
  if (code === "unauthorized") ngx.header["WWW-Authenticate"] = 'Bearer realm="sluice"';
  if (status === 503) ngx.header["Retry-After"] = 1;
  ngx.status = status;
  ngx.header["Content-Type"] = "application/problem+json";
  ngx.header["Cache-Control"] = "no-store";
  ngx.header["Content-Length"] = body.length;
  countCheckRequest(status);
  ngx.print(body);
}
