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
  return charsetFrom(lower, end + 1);
}

/** @param start of the first parameter of the media type */
function charsetFrom(type: string, start: number): "utf-8" | "ascii" | false {
  let reading: "utf-8" | "ascii" = "utf-8";
  let at = start;
  while (at < type.length) {
    const end = endOf(type, ";", at);
    const equals = Math.min(endOf(type, "=", at), end);
    // `charset*=…` is another way to write it.
    if (type.slice(at, equals).trim().startsWith("charset")) {
      const charset = unquoted(type.slice(equals + 1, end).trim());
      if (asciiCharsets.includes(charset)) reading = "ascii";
      else if (!utf8Charsets.includes(charset)) return false;
    }
    at = end + 1;
  }
  return reading;
}

function unquoted(text: string): string {
  return text.length > 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

function endOf(text: string, separator: string, start: number): number {
  const at = text.indexOf(separator, start);
  return at < 0 ? text.length : at;
}
