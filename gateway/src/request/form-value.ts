// Reads the value of a field of the form in the request's body, by the rules of arguments (query-value.ts). The body is read in the access
// phase, up to a bound, and nginx passes it on unchanged.

import { formReading, mostFormBytes } from "../../../limiter/src/key/form-type.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { queryValue } from "./query-value.ts";
import { readHeader } from "./request-headers.ts";

/**
 * Has nginx read the body if it is a form within the bound, so that `formValue` finds it. Yields until the body is there: call it
 * before anything of this request is in a work space.
 */
export function readFormBody(): void {
  if (currentForm() === true && isBounded()) ngx.req.read_body();
}

/** @returns undefined: no such field, or no form that is read. false: servers differ on its value */
export function formValue(name: string): Reading {
  const form = currentForm();
  if (form !== true) return form;
  const body = isBounded() ? ngx.req.get_body_data() : undefined;
  if (body === undefined) return undefined;
  const value = queryValue(body, name);
  if (value === undefined || value === false) return value;
  // Some servers have one list of parameters, in which arguments come before fields.
  const argument = queryValue(ngx.var["args"] ?? "", name);
  return argument === undefined || argument === value ? value : false;
}

function currentForm(): boolean | undefined {
  return formReading(readHeader("content-type"), readHeader("content-encoding"));
}

/** nginx reads bodies only as a whole, so it must be known in advance how long this one is. */
function isBounded(): boolean {
  const length = tonumber(ngx.var["content_length"]);
  return (
    length !== undefined && length > 0 && length <= mostFormBytes && ngx.var["http_transfer_encoding"] === undefined
  );
}
