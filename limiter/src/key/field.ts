// Reads the value that a service finds for a field of a form. Many services have one list of fields and arguments: PHP's $_REQUEST, Rack's
// params, Java's getParameter, Go's FormValue. PHP without a php.ini and ASP.NET's Request[…] also have cookies in it, and PHP's win.

import { argumentText, type ReadUsual, wholeArgument } from "./argument.ts";
import { withoutBlanks } from "./blanks.ts";
import { valueOfOne } from "./cookie.ts";
import { beginsLikeJson } from "./form-type.ts";
import type { Reading } from "./key-part.ts";

/**
 * @param form the body; undefined: there is a body that is not read as a form @param query the arguments @param cookies the lines, joined
 * by ";" @param charset beyond "ascii", servers read the bytes of a value differently
 * @returns the value of the field, or that of an argument or a cookie if there is no field of its name, without the blanks around it. false: they are not the same, or
 * the body may have another one, as a form or as JSON
 */
export function fieldValue(
  form: string | undefined,
  query: string,
  cookies: string,
  name: string,
  charset: "utf-8" | "ascii",
  readUsual: ReadUsual,
): Reading {
  if (form !== undefined && beginsLikeJson(form)) return false;
  const field = form === undefined ? undefined : wholeArgument(form, name, readUsual);
  if (field === false) return false;
  const argument = wholeArgument(query, name, readUsual);
  if (argument === false || isOther(argument, field)) return false;
  const cookie = cookies === "" ? undefined : valueOfOne(cookies, name, cookieText);
  const value = field ?? argument;
  if (cookie === false || isOther(cookie, value)) return false;
  const found = value ?? cookie;
  if (found === undefined) return undefined;
  return form === undefined || (charset === "ascii" && !isAscii(found)) ? false : withoutBlanks(found);
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
