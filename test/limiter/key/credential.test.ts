import { describe, expect, it } from "vitest";
import { holdsCredential } from "../../../limiter/src/key/credential.ts";
import { type KeyPart, parseKeyPart } from "../../../limiter/src/key/key-part.ts";

const holds = (text: string) => holdsCredential(parseKeyPart(text) as KeyPart);

describe("a part of a key", () => {
  it.each([
    "cookie:theme",
    "header:authorization",
    "header:X-API-Key",
    "header:cookie",
    "query:access_token",
    "query:Password",
    "form:password",
    "var:cookie_sid",
    "var:http_authorization",
    "var:arg_apikey",
    "jwt:session_id",
    "query:sig",
  ])("%s holds a credential", (text) => expect(holds(text)).toBe(true));

  it.each([
    "ip",
    "path",
    "host",
    "method",
    "header:x-user-id",
    "query:page",
    "form:account",
    "jwt:sub",
    "var:server_name",
    "const:token",
  ])("%s holds none", (text) => expect(holds(text)).toBe(false));
});
