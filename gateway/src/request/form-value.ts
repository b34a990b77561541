// Reads the value of a field of the form in the request's body. The body is read in the access phase, up to a bound, and nginx passes it
// on unchanged.

import { fieldValue } from "../../../limiter/src/key/argument.ts";
import { type FormReading, formReading, mostFormBytes } from "../../../limiter/src/key/form-type.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { readHeader } from "./request-headers.ts";
import { readUsual } from "./usual-text.ts";

/**
 * Has nginx read the body if it is a form within the bound, so that `formValue` finds it. Yields until the body is there: call it
 * before anything of this request is in a work space.
 */
export function readFormBody(): void {
  const form = currentForm();
  if (form !== undefined && form !== false && isBounded()) ngx.req.read_body();
}

/** @returns undefined: no such field, or no form that is read. false: servers differ on its value */
export function formValue(name: string): Reading {
  const form = currentForm();
  if (form === undefined || form === false) return form;
  const body = isBounded() ? ngx.req.get_body_data() : undefined;
  return body === undefined ? undefined : fieldValue(body, ngx.var["args"] ?? "", name, form, readUsual);
}

function currentForm(): FormReading {
  return formReading(readHeader("content-type"), readHeader("content-encoding"));
}

/** nginx reads bodies only as a whole, so it must be known in advance how long this one is. */
function isBounded(): boolean {
  const length = tonumber(ngx.var["content_length"]);
  return (
    length !== undefined && length > 0 && length <= mostFormBytes && ngx.var["http_transfer_encoding"] === undefined
  );
}
