// Tells from the headers of a request whether its body is a form whose fields can be read. A service that takes the body for something
// else, or reads it in another charset, sees other values than those that were counted.

import type { Reading } from "./key-part.ts";

/** The largest body, in bytes, of which fields are read. */
export const mostFormBytes = 65536;

const formType = "application/x-www-form-urlencoded";
/** What any media type has that some server may take for a form. */
const nameOfForms = "x-www-form-urlencoded";
const utf8Charsets = ["utf-8", "utf8"];
/** In these, the bytes of a name and of its encodings are the same as in ASCII. */
const asciiCharsets = ["us-ascii", "iso-8859-1", "windows-1252"];

/** A text of JSON, a comment before one, and what services put before their own JSON. No form begins so, because names are encoded. */
const beginningsOfJson = '{["/#)';

/** No form needs more, and nobody is to make this work by a long one. */
const mostTypeBytes = 256;

/**
 * In which charset servers read the fields: "utf-8", or "ascii" if they differ on what is beyond it. undefined: the body is no form. false:
 * some servers read it as a form, or in a charset, that others do not.
 */
export type FormReading = "utf-8" | "ascii" | undefined | false;

/** @param type the value of Content-Type @param encoding that of Content-Encoding; false: the header has several lines */
export function formReading(type: Reading, encoding: Reading): FormReading {
  if (type === false || encoding === false) return false;
  if (encoding !== undefined && encoding !== "" && encoding.toLowerCase() !== "identity") return undefined;
  // Rack reads a body without a type as a form.
  if (type === undefined || type === "") return "utf-8";
  const lower = type.toLowerCase();
  const end = endOf(lower, ";", 0);
  if (lower.length > mostTypeBytes || lower.slice(0, end).trim() !== formType) {
    return lower.includes(nameOfForms) ? false : undefined;
  }
  return charsetFrom(lower.slice(end + 1));
}

/**
 * Returns whether services may read the body of a form as JSON: some do so without a type (h3), by what a parameter of the type says (Laravel,
 * formidable), or whatever the type is (`request.json()`). They leave out a byte order mark, blanks, and some of them comments (Gson, Newtonsoft.Json).
 */
export function beginsLikeJson(body: string): boolean {
  for (let i = 0; i < body.length; i++) {
    const code = body.charCodeAt(i);
    // A byte beyond ASCII may be a blank or a byte order mark in some charset.
    if (code > 32 && code < 128) return beginningsOfJson.includes(body.charAt(i));
  }
  return false;
}

/**
 * Any other parameter has some servers read the body as something else: they look for "json" or "multipart" anywhere in the header.
 *
 * @param parameters what follows the media type
 */
function charsetFrom(parameters: string): "utf-8" | "ascii" | false {
  const end = endOf(parameters, ";", 0);
  if (parameters.slice(end + 1).trim() !== "") return false;
  const parameter = parameters.slice(0, end).trim();
  if (parameter === "") return "utf-8";
  const equals = endOf(parameter, "=", 0);
  if (parameter.slice(0, equals).trim() !== "charset") return false;
  const charset = unquoted(parameter.slice(equals + 1).trim());
  if (utf8Charsets.includes(charset)) return "utf-8";
  return asciiCharsets.includes(charset) ? "ascii" : false;
}

function unquoted(text: string): string {
  return text.length > 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

function endOf(text: string, separator: string, start: number): number {
  const at = text.indexOf(separator, start);
  return at < 0 ? text.length : at;
}
