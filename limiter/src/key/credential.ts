// Which values of keys may be a credential of the client, or carry one, so that logs and people who only look on do not get them. The name
// of a part tells, and so does a value: a URL or a query string has arguments with names of their own, and a JWT has its beginning. A policy may
// say of a part that it is secret, or that its name misleads.

import { isWordCode, type KeyPart } from "./key-part.ts";

/** Lower-case texts in names of headers, arguments, form fields, claims and variables. An nginx variable has the name of its header or cookie in it. */
const texts = [
  "key",
  "token",
  "secret",
  "session",
  "cookie",
  "pass",
  "pwd",
  "credential",
  "signature",
  "jwt",
  "bearer",
  "saml",
];
/** In the names of credentials, and of who the client is, once something else has asked for the credential. */
const authText = "auth";
/** Last words of names that say who the client is, such as auth_user and X-Auth-Request-Email: no secret, if only "auth" is before them. */
const people = ["user", "username", "userid", "uid", "email", "name", "group", "groups", "sub", "subject"];
/** nginx's variables for a claim of a JWT: the claim's name tells. */
const claimVariable = "jwt_claim_";
/** Words of a name, between "-", "_" and ".", that are too short to be looked for anywhere. */
const words = ["sid", "sig", "otp", "pin"];
/** A name that ends with such a word is of a whole URL, with its arguments. */
const urls = ["uri", "url", "referer", "referrer"];
/** Variables with the path alone, which is what `path` has. */
const paths = ["uri", "document_uri"];
/** Variables with the whole query string, and more. */
const queries = ["args", "query_string", "request", "request_body"];
/** Headers that are credentials as a whole. */
const headers = ["authorization", "proxy-authorization", "cookie"];
const variables = ["http_authorization", "http_proxy_authorization", "http_cookie"];
/** A value with more may cost too much to look through, and counts as a credential. */
const mostArguments = 50;

/** @param value what a request has for the part */
export function holdsCredential(part: KeyPart, value: string): boolean {
  return isOfCredentials(part) || (part.source !== "const" && looksLikeCredential(value));
}

/** Returns whether each value of the part may be a credential, by what a policy says of the part or by its name. */
export function isOfCredentials(part: KeyPart): boolean {
  if (part.secret === true || isAlwaysCredential(part)) return true;
  if (part.source === "const" || part.secret !== undefined || !("name" in part)) return false;
  return isNamedLikeCredential(part.source, part.name.toLowerCase());
}

/** Returns whether a value has a credential in it, whatever part it is of. */
export function looksLikeCredential(value: string): boolean {
  return hasJwt(value) || hasUserInfo(value) || hasCredentialArgument(value);
}

/** Returns whether each value is a credential, whatever a policy says: of `Authorization` and of cookies. */
export function isAlwaysCredential(part: KeyPart): boolean {
  if (part.source === "cookie") return true;
  if (part.source === "header") return headers.includes(part.name);
  if (part.source !== "var") return false;
  const name = part.name.toLowerCase();
  return name.startsWith("cookie_") || variables.includes(name);
}

/** @param name in lower case */
function isNamedLikeCredential(source: KeyPart["source"], name: string): boolean {
  const isVariable = source === "var";
  if (isVariable && queries.includes(name)) return true;
  if (urls.includes(name.slice(lastWordAt(name))) && !(isVariable && paths.includes(name))) return true;
  const isClaim = isVariable && name.startsWith(claimVariable);
  return isOfCredential(isClaim ? name.slice(claimVariable.length) : name);
}

/** @param name in lower case */
function isOfCredential(name: string): boolean {
  for (const text of texts) {
    if (name.indexOf(text) >= 0) return true;
  }
  if (name.indexOf(authText) >= 0 && !isOfPerson(name)) return true;
  for (let end = name.length; end > 0; ) {
    const begin = lastWordAt(name, end);
    if (words.includes(name.slice(begin, end))) return true;
    end = begin - 1;
  }
  return false;
}

function isOfPerson(name: string): boolean {
  const begin = lastWordAt(name);
  const word = name.slice(begin);
  return people.includes(word === "id" ? name.slice(lastWordAt(name, begin - 1), begin - 1) : word);
}

/** Returns where the last word before a place begins. */
function lastWordAt(name: string, end = name.length): number {
  for (let at = end; at > 0; at--) {
    const code = name.charCodeAt(at - 1);
    if (code === hyphen || code === underscore || code === dot) return at;
  }
  return 0;
}

/** A header of a JWT is JSON that begins with {", in base64. */
function hasJwt(value: string): boolean {
  const at = value.indexOf("eyJ");
  return at >= 0 && value.indexOf(".", at) >= 0;
}

/** As in https://ann:secret@example.com/. */
function hasUserInfo(value: string): boolean {
  const at = value.indexOf("://");
  if (at < 0) return false;
  const rest = value.slice(at + 3);
  const slash = rest.indexOf("/");
  return (slash < 0 ? rest : rest.slice(0, slash)).indexOf("@") >= 0;
}

/** Returns whether the value has an argument such as token=… in it, of a URL, of a path or of another URL within an argument. */
function hasCredentialArgument(value: string): boolean {
  if (value.indexOf("=") < 0 && value.indexOf("%3") < 0) return false;
  let begin = 0;
  let found = 0;
  for (let at = 0; at < value.length; at++) {
    const code = value.charCodeAt(at);
    const isPercent3d = code === percent && value.slice(at, at + 3).toLowerCase() === "%3d";
    if (code === equals || isPercent3d) {
      found += 1;
      if (found > mostArguments || isOfCredential(value.slice(begin, at).toLowerCase())) return true;
      begin = at + 1;
    } else if (!isWordCode(code) && code !== hyphen && code !== dot) {
      begin = at + 1;
    }
  }
  return false;
}

const [hyphen, dot, underscore, equals, percent] = [45, 46, 95, 61, 37];
