// The defence against requests that another site's page makes a browser send (CSRF). A session's cookie is SameSite=Strict, so it
// does not come with such a request; this is for browsers that do not know that, and for other hosts of the same site.

import type { FastifyRequest } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { isSame } from "../sessions/session-secret.ts";

const safeMethods = ["GET", "HEAD", "OPTIONS"];
const csrfHeader = "x-csrf-token";

/**
 * @throws ApiError cross-site-request, if the request is identified by a session, changes something, and is not our page's; or if it is of a
 * page of another session, which must not show what this one may see
 */
export function requireOwnPage(request: FastifyRequest, publicOrigin: string | undefined): void {
  if (request.session === undefined) return;
  const sent = request.headers[csrfHeader];
  if (safeMethods.includes(request.method)) {
    if (sent === undefined) return;
  } else {
    requireOwnOrigin(request, publicOrigin);
  }
  if (sent === undefined) {
    throw refused(`X-CSRF-Token: expected the csrfToken of GET /api/v1/session, got none.`);
  }
  if (typeof sent !== "string" || !isSame(sent, request.session.csrfToken)) {
    throw refused(`X-CSRF-Token: expected the csrfToken of GET /api/v1/session, got another one.`);
  }
}

/** Programs that are no browsers send neither header. @throws ApiError cross-site-request */
export function requireOwnOrigin({ headers, host }: FastifyRequest, publicOrigin: string | undefined): void {
  const from = headers["sec-fetch-site"];
  if (from !== undefined && from !== "same-origin" && from !== "none") {
    throw refused(`Sec-Fetch-Site: expected same-origin, got ${from}.`);
  }
  const { origin } = headers;
  // A proxy in front may speak TLS, so only the host is compared with the request's own.
  if (origin === undefined || origin === publicOrigin || hostOf(origin) === host) return;
  throw refused(`Origin: expected that of the control plane, got ${JSON.stringify(origin)}.`);
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

function refused(detail: string): ApiError {
  return new ApiError("cross-site-request", detail);
}
