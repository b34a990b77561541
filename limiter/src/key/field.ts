// Reads the value that a service finds for a field of a form. Many services have one list of fields and arguments: PHP's $_REQUEST, Rack's
// params, Java's getParameter, Go's FormValue. PHP without a php.ini and ASP.NET's Request[…] also have cookies in it, and PHP's win. A cookie
// alone counts for nothing: it may be a decoy beside a field that the service has from where we do not look, such as a header (Spring).

import { hexDigit } from "../basics/hex-digit.ts";
import { argumentText, isOtherWithin, type ReadUsual, wholeArgument } from "./argument.ts";
import { withoutBlanks } from "./blanks.ts";
import { valueOfOne } from "./cookie.ts";
import { beginsLikeJson } from "./form-type.ts";
import type { Reading } from "./key-part.ts";

const space = 32;
const percent = 37;
const ampersand = 38;
const semicolon = 59;
const equals = 61;

/**
 * @param form the body; undefined: there is a body that is not read as a form @param query the arguments @param cookies the lines, joined
 * by ";" @param charset beyond "ascii", servers read the bytes of a value differently
 * @returns the value of the field, or that of an argument if there is no field of its name, without the blanks around it. false: they and a cookie of the name are not the
 * same, or the body may have another one, as a form or as JSON
 */
export function fieldValue(
  form: string | undefined,
  query: string,
  cookies: string,
  name: string,
  charset: "utf-8" | "ascii",
  readUsual: ReadUsual,
): Reading {
  if (form !== undefined && (beginsLikeJson(form) || isOddlyWritten(form))) return false;
  const field = form === undefined ? undefined : wholeArgument(form, name, readUsual, false);
  if (field === false) return false;
  const argument = wholeArgument(query, name, readUsual, false);
  if (argument === false || isOther(argument, field)) return false;
  const value = field ?? argument;
  if (value === undefined) return undefined;
  if (form === undefined || (charset === "ascii" && !isAscii(value))) return false;
  if (isOtherWithin(form, name, value, readUsual) || isOtherWithin(query, name, value, readUsual)) return false;
  const cookie = cookies === "" ? undefined : valueOfOne(cookies, name, cookieText);
  return cookie === false || isOther(cookie, value) ? false : withoutBlanks(value);
}

/**
 * Returns whether there is what no browser writes: a control character, where Netty ends the body and Ktor and Spring leave it out, or a "%"
 * in a name without two digits of ASCII behind it. Java decodes digits of any script.
 */
function isOddlyWritten(form: string): boolean {
  let isInName = true;
  for (let i = 0; i < form.length; i++) {
    const code = form.charCodeAt(i);
    if (code < space) return true;
    if (code === equals) isInName = false;
    else if (code === ampersand || code === semicolon) isInName = true;
    else if (code === percent && isInName) {
      if (hexDigit(form.charCodeAt(i + 1)) < 0 || hexDigit(form.charCodeAt(i + 2)) < 0) return true;
    }
  }
  return false;
}

function isOther(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && one !== other;
}

/** PHP decodes a cookie as it decodes an argument. ASP.NET leaves "+" as it is. */
function cookieText(written: string): string | false {
  return written.includes("+") ? false : argumentText(written);
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= 128) return false;
  return true;
}
