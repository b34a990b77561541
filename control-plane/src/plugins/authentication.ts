// Identifies the caller and checks whether the caller may use the route. A route says what access it needs; one that does
// not is for admins of all apps, so that a route for which somebody forgot this is closed, not open. If a URL names an app,
// the token must be for that app: other callers do not learn whether such an app exists.

import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";
import { findToken, type Role } from "../storage/tokens.ts";
import type { Caller } from "../tokens/caller.ts";
import { hashToken } from "../tokens/token.ts";

/**
 * Who may use a route: anybody; gateways; or those who may read, change or manage the app that its URL names. `own` is for
 * those who may manage all apps. A route for an app that its URL does not name must check the caller's app itself.
 */
export type Access = "public" | "gateway" | "read" | "write" | "manage" | "own";

const rolesFor: Readonly<Record<Exclude<Access, "public">, readonly Role[]>> = {
  gateway: ["gateway"],
  read: ["viewer", "editor", "admin"],
  write: ["editor", "admin"],
  manage: ["admin"],
  own: ["admin"],
};

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
    app.addHook("onRequest", async (request) => {
      const access = request.is404 ? "public" : (request.routeOptions.config.access ?? "own");
      if (access === "public") return;
      const caller = await identify(request);
      const roles = rolesFor[access];
      if (!roles.includes(caller.role)) {
        const needed = `this needs ${access === "gateway" ? "a gateway's" : `one of ${roles.join(", ")}`}`;
        throw new ApiError("forbidden", `The token has the role ${caller.role}: ${needed}.`);
      }
      if (access === "own" && caller.app !== undefined) {
        throw new ApiError("forbidden", `The token is for the app "${caller.app}": this needs one for all apps.`);
      }
      const { app: named } = (request.params ?? {}) as { app?: string };
      if (named !== undefined) refuseOtherApp(caller, named);
      request.caller = caller;
    });

    async function identify(request: FastifyRequest): Promise<Caller> {
      const token = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
      if (token === undefined) throw unauthorized("No bearer token came with the request.");
      const record = await findToken(app.database, hashToken(token));
      if (record === undefined) throw unauthorized("The token is unknown.");
      if (record.expiresAtMs !== undefined && record.expiresAtMs <= now()) throw unauthorized("The token has expired.");
      return { tokenId: record.id, name: record.name, role: record.role, app: record.app };
    }
  },
  { name: "authentication", dependencies: ["database", "error-responses"] },
);

/** @throws ApiError unauthorized if the route is public and has no caller */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === undefined) throw unauthorized("No bearer token came with the request.");
  return request.caller;
}

/** @throws ApiError forbidden */
export function refuseOtherApp(caller: Caller, app: string): void {
  if (caller.app === undefined || caller.app === app) return;
  throw new ApiError("forbidden", `The token is for the app "${caller.app}" alone.`);
}

function unauthorized(detail: string): ApiError {
  return new ApiError("unauthorized", detail, {}, { "www-authenticate": "Bearer" });
}
