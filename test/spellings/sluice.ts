// What Sluice reads of a request, by its own code: in Node, as the console runs it, and in LuaJIT, as nginx does.

import { argumentValue } from "../../limiter/src/key/argument.ts";
import { cookieValue } from "../../limiter/src/key/cookie.ts";
import { fieldValue } from "../../limiter/src/key/field.ts";
import { formReading } from "../../limiter/src/key/form-type.ts";
import type { Reading } from "../../limiter/src/key/key-part.ts";
import type { Kind } from "./cases.ts";
import type { SpelledRequest } from "./server.ts";

/** @returns undefined: the name is not there. false: the answer is 400 */
export function readBySluice(kind: Kind, request: SpelledRequest): Reading {
  const { name, query, body, cookie } = request;
  if (kind === "query") return argumentValue(query, name, readUsual);
  if (kind === "cookie") return cookieValue(cookie, name);
  const form = formReadingOf(request);
  if (form === false) return false;
  const isRead = form !== undefined || body === "";
  return fieldValue(isRead ? body : undefined, query, cookie, name, form ?? "utf-8", readUsual);
}

/** A part of what nginx's encoder finds out. */
function readUsual(written: string): string | undefined {
  return /^[\w.~-]*$/.test(written) ? written : undefined;
}

/** @returns how the body is read as a form; undefined: not at all */
function formReadingOf({ type }: SpelledRequest): ReturnType<typeof formReading> {
  // nginx gives headers without the blanks around them.
  return formReading(type === "" ? undefined : type.trim(), undefined);
}
