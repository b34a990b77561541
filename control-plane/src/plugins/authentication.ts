// Identifies the caller and checks whether the caller may use the route. A route says what access it needs; one that does
// not is for admins, so that a route for which somebody forgot this is closed, not open. If a URL names an app, the caller
// needs the right in that app: other callers do not learn whether such an app exists.

import type { FastifyReply, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";
import { appsWith, type Caller, hasRight, type Right, rolesWith } from "../rights/caller.ts";
import { findCaller } from "../storage/callers.ts";
import { hashToken } from "../tokens/token.ts";

/**
 * Who may use a route: anybody; gateways; members, and who manages an app; those who have a right in the app that its URL names, or in
 * any app if it names none; `own`: admins. A route for an app that its URL does not name must check the caller's right itself.
 */
export type Access = "public" | "gateway" | "member" | Right | "own";

declare module "fastify" {
  interface FastifyContextConfig {
    readonly access?: Access;
  }
  interface FastifyRequest {
    /** Set on every route that is not public. */
    caller: Caller | undefined;
  }
}

export default fp<{ now: () => number }>(
  async (app, { now }) => {
    app.decorateRequest("caller", undefined);
    app.addHook("onRequest", async (request, reply) => {
      const access = request.is404 ? "public" : (request.routeOptions.config.access ?? "own");
      if (access === "public") return;
      const caller = await identify(request, reply);
      const { app: named } = (request.params ?? {}) as { app?: string };
      requireAccess(caller, access, named);
      request.caller = caller;
    });

    async function identify(request: FastifyRequest, reply: FastifyReply): Promise<Caller> {
      const token = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
      if (token === undefined) throw unauthorized("No bearer token came with the request.");
      const hash = hashToken(token);
      const find = () => findCaller(app.database, hash, now());
      const found = await app.requestLimits.signIn(hash, request, reply, find);
      if (typeof found === "string") throw unauthorized(refusals[found]);
      app.noteTokenUse(found.id);
      return found;
    }
  },
  { name: "authentication", dependencies: ["database", "error-responses", "request-limits", "token-uses"] },
);

const refusals = {
  unknown: "The token is unknown.",
  expired: "The token has expired.",
  disabled: "The member to whom the token belongs is disabled.",
} as const;

/** @throws ApiError forbidden */
function requireAccess(caller: Caller, access: Exclude<Access, "public">, app: string | undefined): void {
  if (access === "gateway") {
    if (!caller.isGateway) throw new ApiError("forbidden", "This needs a gateway's token.");
    return;
  }
  if (caller.isGateway) throw new ApiError("forbidden", "A gateway's token may only open the push socket.");
  if (caller.isAdmin || (access === "member" && caller.member !== undefined)) return;
  if (access === "own") throw new ApiError("forbidden", "This needs the role admin.");
  const right = access === "member" ? "manage" : access;
  if (app !== undefined) requireRight(caller, right, app);
  else if (appsWith(caller, right)?.length === 0) throw lacks(right, "any app");
}

/** @throws ApiError forbidden */
export function requireRight(caller: Caller, right: Right, app: string): void {
  if (!hasRight(caller, right, app)) throw lacks(right, `the app "${app}"`);
}

function lacks(right: Right, where: string): ApiError {
  const roles = rolesWith(right);
  const needed = roles.length === 1 ? `the role ${roles[0]}` : `one of the roles ${roles.join(", ")}`;
  return new ApiError("forbidden", `This needs ${needed} in ${where}, or the role admin.`);
}

/** Returns the apps in which the caller has this right; undefined: in all. */
export const appsOf = appsWith;

/** @throws ApiError unauthorized if the route is public and has no caller */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === undefined) throw unauthorized("No bearer token came with the request.");
  return request.caller;
}

function unauthorized(detail: string): ApiError {
  return new ApiError("unauthorized", detail, {}, { "www-authenticate": "Bearer" });
}
