// Reads the value of a field of the form in the request's body. The body is read in the access phase, up to a bound, and nginx passes it
// on unchanged.

import { fieldValue } from "../../../limiter/src/key/field.ts";
import { type FormReading, formReading, mostFormBytes } from "../../../limiter/src/key/form-type.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { requestArguments } from "./arguments.ts";
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

/**
 * @returns undefined: no such field, nor an argument that servers take for one. false: servers differ on its value
 */
export function formValue(name: string): Reading {
  const form = currentForm();
  const query = requestArguments();
  if (form === false || query === false) return false;
  return fieldValue(bodyOf(form), query, ngx.var["http_cookie"] ?? "", name, form ?? "utf-8", readUsual);
}

const methodsWithBody: readonly string[] = ["POST", "PUT", "PATCH", "DELETE"];

type Charset = Exclude<FormReading, undefined | false>;

/** What servers take fields from. */
export interface Fields {
  readonly body: string | undefined;
  readonly query: string;
  readonly cookies: string;
  readonly charset: Charset;
}

/** Reads what `formValue` reads, for a request of which many fields are read. @returns false: servers differ on all fields */
export function readFields(): Fields | false {
  const form = currentForm();
  const query = requestArguments();
  if (form === false || query === false) return false;
  return { body: bodyOf(form), query, cookies: ngx.var["http_cookie"] ?? "", charset: form ?? "utf-8" };
}

/** Returns what `formValue` returns. */
export function valueAmong({ body, query, cookies, charset }: Fields, name: string): Reading {
  return fieldValue(body, query, cookies, name, charset, readUsual);
}

function bodyOf(form: Charset | undefined): string | undefined {
  if (form !== undefined && isBounded()) return ngx.req.get_body_data();
  return mayHaveBody() ? undefined : "";
}

function currentForm(): FormReading {
  return formReading(readHeader("content-type"), readHeader("content-encoding"));
}

/** nginx reads bodies only as a whole, so it must be known in advance how long this one is. */
function isBounded(): boolean {
  const length = bodyLength();
  return (
    length !== undefined && length > 0 && length <= mostFormBytes && ngx.var["http_transfer_encoding"] === undefined
  );
}

/**
 * Since HTTP/2, a body needs no header that announces it, and nginx does not tell Lua whether there is one. Without a type, services look for
 * fields only in the body of a method that has one; Rack, only of a POST, and h3 also of a DELETE.
 */
function mayHaveBody(): boolean {
  if (ngx.var["http_transfer_encoding"] !== undefined) return true;
  const length = bodyLength();
  if (length !== undefined) return length > 0;
  if (string.find(ngx.var["server_protocol"] ?? "", "HTTP/1", 1, true)[0] !== undefined) return false;
  const method = ngx.req.get_method();
  return methodsWithBody.includes(method) || ngx.var["http_content_type"] !== undefined;
}

function bodyLength(): number | undefined {
  return tonumber(ngx.var["content_length"]);
}
