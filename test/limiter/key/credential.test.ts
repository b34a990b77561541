import { describe, expect, it } from "vitest";
import { holdsCredential } from "../../../limiter/src/key/credential.ts";
import { type KeyPart, parseKeyPart } from "../../../limiter/src/key/key-part.ts";

const holds = (text: string, value = "ann") => holdsCredential(parseKeyPart(text) as KeyPart, value);

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
    "var:args",
    "var:query_string",
    "var:request",
    "var:request_uri",
    "var:arg_sid",
    "var:http_x_sid",
    "var:arg_redirect_uri",
    "var:http_referer",
    "header:referer",
    "header:x-original-url",
    "query:otp",
    "form:SAMLResponse",
    "header:x-authentik-jwt",
    "header:x-auth-request-access-token",
    "header:x-auth-id",
    "header:id-auth",
    "var:auth_id",
    "var:auth_user_token",
    "var:cookie_auth_user",
    "var:jwt_claim_session_id",
    "query:token_user",
    "query:auth",
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
    "var:uri",
    "var:document_uri",
    "query:inside",
    "query:design",
    "const:token",
    "var:auth_user",
    "var:remote_user",
    "var:jwt_claim_sub",
    "header:x-auth-request-email",
    "header:x-auth-request-preferred-username",
    "header:x-goog-authenticated-user-id",
    "header:X-Authenticated-Groups",
    "header:x-authentik-uid",
    "jwt:auth_name",
  ])("%s holds none", (text) => expect(holds(text)).toBe(false));

  it.each([
    "https://ann:secret@shop.test/",
    "https://token@shop.test",
    "/books?page=2&access_token=abc",
    "/books;jsessionid=abc",
    "page=2&sid=abc",
    "to=https%3A%2F%2Fshop.test%2F%3Fapi_key%3Dabc",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln",
    "a=".repeat(51),
    "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln",
  ])("with %s holds one, whatever it is called", (value) => {
    for (const text of ["path", "header:x-user", "query:next", "jwt:sub", "var:uri"])
      expect(holds(text, value), text).toBe(true);
  });

  it.each([
    "https://shop.test/books?page=2",
    "ann@shop.test",
    "/books?page=2&size=3",
    "/books?auth_user=ann",
    "key",
    "a==",
    "a=".repeat(49),
    "eyJ",
  ])("with %s holds none", (value) => expect(holds("header:x-user", value)).toBe(false));
});
