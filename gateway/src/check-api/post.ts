// All POST requests of the check API bring a caller's token and a short body of JSON: both are read here.

import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { countCheckRequest } from "../metrics/counts.ts";
import { readHeader } from "../request/request-headers.ts";
import { type Caller, currentCaller } from "./caller-tokens.ts";
import { type CheckError, sendProblem, unauthorized } from "./check-errors.ts";
import { mostBodyBytes } from "./request-body.ts";

const tooLarge: CheckError = {
  code: "body-too-large",
  detail: `The body is larger than ${mostBodyBytes} bytes. Nothing was charged.`,
};

/** Called when nginx itself refuses a body as too large. */
export function bodyTooLarge(): void {
  sendProblem(tooLarge);
}

/** @returns the caller and the body; or what is wrong */
export function readPost(): LuaMultiReturn<
  [caller: Caller | undefined, body: string | undefined, error: CheckError | undefined]
> {
  if (ngx.req.get_method() !== "POST") {
    ngx.header["Allow"] = "POST";
    return $multi(undefined, undefined, { code: "method-not-allowed", detail: "Ask by POST." });
  }
  const caller = currentCaller();
  if (caller === undefined) return $multi(undefined, undefined, unauthorized);
  if (!isJson(readHeader("content-type"))) {
    const detail = "Send Content-Type: application/json.";
    return $multi(undefined, undefined, { code: "unsupported-media-type", detail });
  }
  ngx.req.read_body();
  const body = ngx.req.get_body_data();
  if (body === undefined) {
    if (ngx.req.get_body_file() !== undefined) return $multi(undefined, undefined, tooLarge);
    const detail = "There is no body. Nothing was charged.";
    return $multi(undefined, undefined, { code: "malformed-body", detail });
  }
  if (body.length > mostBodyBytes) return $multi(undefined, undefined, tooLarge);
  return $multi(caller, body, undefined);
}

function isJson(contentType: Reading): boolean {
  if (contentType === undefined || contentType === false) return false;
  if (contentType === "application/json") return true;
  return string.match(string.lower(contentType), "^application/json%s*;")[0] !== undefined;
}

/** Answers 200. */
export function sendJson(body: string): void {
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Cache-Control"] = "no-store";
  ngx.header["Content-Length"] = body.length;
  countCheckRequest(200);
  ngx.print(body);
}
