// Headers that identify somebody, determine how a message is carried, or hold for a whole site. On requests and on responses,
// only a token for all apps may have policies set them: an app's editor could speak for others with them. Headers that frame a
// message are refused to everybody (on-limit.ts).

import type { Problem } from "../document/problems.ts";

/** Documented in docs/security.md; a test compares the two. */
export const namesForAdmins: readonly string[] = [
  "accept-ch",
  "alt-svc",
  "api-key",
  "apikey",
  "authentication-info",
  "authorization",
  "cf-connecting-ip",
  "clear-site-data",
  "client-cert",
  "client-cert-chain",
  "client-ip",
  "connection",
  "content-length",
  "cookie",
  "cookie2",
  "dpop",
  "expect",
  "expect-ct",
  "fastly-client-ip",
  "forwarded",
  "front-end-https",
  "host",
  "http2-settings",
  "keep-alive",
  "nel",
  "origin",
  "origin-agent-cluster",
  "proxy",
  "public-key-pins",
  "public-key-pins-report-only",
  "report-to",
  "service-worker-allowed",
  "set-cookie",
  "set-cookie2",
  "signature",
  "signature-input",
  "strict-transport-security",
  "te",
  "trailer",
  "transfer-encoding",
  "true-client-ip",
  "upgrade",
  "via",
  "www-authenticate",
  "x-access-token",
  "x-api-key",
  "x-auth",
  "x-client-ip",
  "x-cluster-client-ip",
  "x-csrf-token",
  "x-host",
  "x-http-method",
  "x-http-method-override",
  "x-id-token",
  "x-method-override",
  "x-real-ip",
  "x-scheme",
  "x-sendfile",
  "x-url-scheme",
  "x-xsrf-token",
];

/** The beginnings of further names. */
export const beginningsForAdmins: readonly string[] = [
  "cf-access-",
  "proxy-",
  "remote-",
  "sec-",
  "ssl-client-",
  "tailscale-user-",
  "x-accel-",
  "x-amzn-oidc-",
  "x-anonymous-",
  "x-arr-",
  "x-auth-",
  "x-authenticated-",
  "x-authentik-",
  "x-client-cert",
  "x-client-dn",
  "x-client-verify",
  "x-consumer-",
  "x-credential-",
  "x-envoy-",
  "x-forwarded",
  "x-goog-",
  "x-jwt-",
  "x-ms-client-principal",
  "x-ms-token-",
  "x-original-",
  "x-pomerium-",
  "x-remote-",
  "x-rewrite-",
  "x-ssl-",
  "x-tls-client-",
  "x-vouch-",
  "x-webauth-",
];

/** @param name in lower case */
export function isForAdmins(name: string): boolean {
  return namesForAdmins.includes(name) || beginningsForAdmins.some((beginning) => name.startsWith(beginning));
}

/**
 * Returns a problem for each header in a document that an app's own tokens may not store.
 *
 * @param onLimit as it was put, valid or not
 */
export function headerProblems(onLimit: unknown): Problem[] {
  const problems: Problem[] = [];
  if (typeof onLimit !== "object" || onLimit === null) return problems;
  const { header, headers, response } = onLimit as Record<string, unknown>;
  checkLine(header, "onLimit.header", problems);
  checkLines(headers, "onLimit.headers", problems);
  if (typeof response !== "object" || response === null) return problems;
  checkLines((response as Record<string, unknown>)["headers"], "onLimit.response.headers", problems);
  return problems;
}

function checkLines(lines: unknown, path: string, problems: Problem[]): void {
  if (!Array.isArray(lines)) return;
  for (let i = 0; i < lines.length; i++) checkLine(lines[i], `${path}[${i}]`, problems);
}

function checkLine(line: unknown, path: string, problems: Problem[]): void {
  if (typeof line !== "string") return;
  const colon = line.indexOf(":");
  const name = (colon < 0 ? line : line.slice(0, colon)).toLowerCase();
  if (!isForAdmins(name)) return;
  const expected =
    "another header: this one says who somebody is, or how messages are carried, and only a token for all apps may set it";
  problems.push({ path, expected, got: `"${name}"` });
}
