import { describe, expect, it } from "vitest";
import { holdsCredential, isAlwaysCredential } from "../../../limiter/src/key/credential.ts";
import { type KeyPart, keyPartText, parseKeyPart, withSecrets } from "../../../limiter/src/key/key-part.ts";

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

describe("a part of which the policy says whether it is secret", () => {
  const part = (text: string) => parseKeyPart(text) as KeyPart;
  const holdsAs = (isSecret: boolean, text: string, value = "ann") =>
    holdsCredential(withSecrets([part(text)], { [text]: isSecret })[0] as KeyPart, value);

  it.each(["ip", "path", "header:x-user", "const:a"])("%s holds a credential if it is", (text) =>
    expect(holdsAs(true, text)).toBe(true),
  );

  it.each(["header:x-token-kind", "query:keyboard", "var:http_referer"])("%s holds none if it is not", (text) => {
    expect([holds(text), holdsAs(false, text)]).toEqual([true, false]);
    expect(holdsAs(false, text, "/books?access_token=abc")).toBe(true);
    expect(holdsAs(false, text, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln")).toBe(true);
  });

  it.each([
    "cookie:theme",
    "header:Authorization",
    "header:proxy-authorization",
    "header:cookie",
    "var:HTTP_authorization",
    "var:cookie_a",
  ])("%s holds one always", (text) =>
    expect([isAlwaysCredential(part(text)), holdsAs(false, text)]).toEqual([true, true]),
  );

  it("is found in whichever spelling, and has the counters that it had", () => {
    const key = ["ip", "header:X-User", "method"].map(part);
    const marked = withSecrets(key, { "ip/32/64": true, "header:x-user": false });
    expect(marked.map(({ secret }) => secret)).toEqual([true, false, undefined]);
    expect(marked.map(keyPartText)).toEqual(key.map(keyPartText));
    expect(withSecrets(key, { "header:x-user": false, "header:X-USER": true })[1]?.secret).toBe(true);
  });
});
