// Identifies the caller and checks whether the caller may use the route. A route says what access it needs; one that does
// not is for admins, so that a route for which somebody forgot this is closed, not open. If a URL names an app, the caller
// needs the right in that app: other callers do not learn whether such an app exists.

import type { FastifyReply, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import type { Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import { appsWith, type Caller, hasLost, hasRight, type Right, rolesWith } from "../rights/caller.ts";
import { findCaller } from "../storage/callers.ts";
import type { Database, Tables } from "../storage/tables.ts";
import { hashToken } from "../tokens/token.ts";
import { requireOwnPage } from "./same-site.ts";
import type { SessionRefusal } from "./sessions.ts";

/**
 * Who may use a route: anybody; gateways; all others but the check API's callers; members, and who manages an app; those who
 * have a right in the app that its URL names, or in any app if it names none; `own`: admins. A route for an app that its URL does not name must check the caller's right itself.
 */
export type Access = "public" | "gateway" | "person" | "member" | Right | "own";

/** Who sends a request is asked again if its body came later than this. */
const mostBodyMs = 100;

declare module "fastify" {
  interface FastifyContextConfig {
    readonly access?: Access;
  }
  interface FastifyRequest {
    /** Set on every route that is not public. */
    caller: Caller | undefined;
  }
  interface FastifyInstance {
    /** Returns whose the request seems to be, by a credential that was right before, without asking the database. */
    knownOwners(request: FastifyRequest): readonly string[] | undefined;
    /** Every failed identification by a token, here and at a sign-in, is this error. @throws ApiError unauthorized */
    identifyToken(token: string, request: FastifyRequest, reply: FastifyReply): Promise<Caller>;
    /** Identifies the caller of a request that goes on for long, with the rights of now. @throws ApiError unauthorized */
    identifyAgain(request: FastifyRequest, from?: Database | Transaction<Tables>): Promise<Caller>;
    /**
     * Looks whether the caller may still do what the request was let in for, with no rights fewer than it was checked with.
     * @throws ApiError unauthorized, forbidden
     */
    requireStill(request: FastifyRequest, from: Database | Transaction<Tables>): Promise<void>;
  }
}

export default fp<{ now: () => number; publicOrigin: string | undefined }>(
  async (app, { now, publicOrigin }) => {
    app.decorateRequest("caller", undefined);
    app.addHook("onRequest", async (request, reply) => {
      const access = request.is404 ? "public" : accessOf(request);
      if (access === "public") return;
      // The log and the traces say who was refused too.
      request.caller = await identify(request, reply, access);
      requireAccess(request.caller, access, appNamedBy(request));
    });
    // A body may take half a minute to arrive. Whoever was disabled meanwhile changes nothing any more.
    app.addHook("preHandler", async (request, reply) => {
      const access = accessOf(request);
      if (access === "public" || request.body === undefined || reply.elapsedTime < mostBodyMs) return;
      request.caller = await app.identifyAgain(request);
      requireAccess(request.caller, access, appNamedBy(request));
    });

    /** A token comes before a cookie: no other site's page can send one. */
    async function identify(request: FastifyRequest, reply: FastifyReply, access: Access): Promise<Caller> {
      const token = bearerTokenOf(request);
      if (token !== undefined) return identifyToken(token, request, reply);
      // Gateways have no cookies, and every site's page may open a WebSocket.
      if (access === "gateway") throw unauthorized("No bearer token came with the request.");
      const found = await app.sessions.identify(request, reply);
      if (found === undefined)
        throw unauthorized("Neither a bearer token nor a session's cookie came with the request.");
      if (typeof found === "string") throw unauthorized(sessionRefusals[found]);
      requireOwnPage(request, publicOrigin);
      return found;
    }

    app.decorate("knownOwners", (request) => {
      const token = bearerTokenOf(request);
      const credentials = token === undefined ? app.sessions.credentialsOf(request) : [hashToken(token)];
      return credentials.map((one) => app.requestLimits.ownersOf(one)).find((owners) => owners !== undefined);
    });

    async function identifyToken(token: string, request: FastifyRequest, reply: FastifyReply): Promise<Caller> {
      const rights = { nowMs: now(), groups: app.groupMapping };
      const hash = hashToken(token);
      const find = () => findCaller(app.database, { hash }, rights);
      const found = await app.requestLimits.signIn(hash, request, reply, find);
      if (typeof found === "string") throw unauthorized(refusals[found]);
      app.noteTokenUse(found.id);
      return found;
    }
    app.decorate("identifyToken", identifyToken);

    app.decorate("identifyAgain", async (request, from = app.database) => {
      const { id } = callerOf(request);
      if (request.session !== undefined) {
        const found = await app.sessions.identifyAgain(request.session, from);
        if (typeof found === "string") throw unauthorized(sessionRefusals[found]);
        return found;
      }
      const found = await findCaller(from, { id }, { nowMs: now(), groups: app.groupMapping });
      if (typeof found === "string") throw unauthorized(refusals[found]);
      return found;
    });

    app.decorate("requireStill", async (request, from) => {
      const before = callerOf(request);
      const caller = await app.identifyAgain(request, from);
      const access = accessOf(request);
      const named = appNamedBy(request);
      if (access !== "public") requireAccess(caller, access, named);
      // Within the app that the URL names, admins may store more than others. Other routes look at further rights themselves.
      const isLess = named === undefined ? hasLost(before, caller) : before.isAdmin && !caller.isAdmin;
      if (!isLess) return;
      throw new ApiError(
        "forbidden",
        "You lost a right while the request waited. Send it again if you may still do this.",
      );
    });
  },
  {
    name: "authentication",
    dependencies: ["database", "error-responses", "request-limits", "token-uses", "sessions", "groups"],
  },
);

function bearerTokenOf({ headers }: FastifyRequest): string | undefined {
  return /^bearer +(\S+) *$/i.exec(headers.authorization ?? "")?.[1];
}

function accessOf({ routeOptions }: FastifyRequest): Access {
  return routeOptions.config.access ?? "own";
}

function appNamedBy({ params }: FastifyRequest): string | undefined {
  return ((params ?? {}) as { app?: string }).app;
}

const refusals = {
  unknown: "The token is unknown.",
  expired: "The token has expired.",
  disabled: "The member to whom the token belongs is disabled.",
} as const;

const sessionRefusals: Readonly<Record<SessionRefusal, string>> = {
  ended: "The session has ended: sign in again.",
  stolen:
    "A former secret of the session was used, as by somebody who has copied the cookie. The session has ended: sign in again.",
  several:
    "The cookies of several sessions came with the request, as when another program on this host sets one of the same name: sign in again.",
  unknown: "The token or the member of the session was deleted: sign in again.",
  expired: "The token of the session has expired: sign in again.",
  disabled: "The member who is signed in is disabled.",
};

/** @throws ApiError forbidden */
export function requireAccess(caller: Caller, access: Exclude<Access, "public">, app: string | undefined): void {
  if (access === "gateway") {
    if (!caller.isGateway) throw new ApiError("forbidden", "This needs a gateway's token.");
    return;
  }
  requirePerson(caller);
  if (access === "person" || caller.isAdmin || (access === "member" && caller.member !== undefined)) return;
  if (access === "own") throw new ApiError("forbidden", "This needs the role admin.");
  const right = access === "member" ? "manage" : access;
  if (app !== undefined) requireRight(caller, right, app);
  else if (appsWith(caller, right)?.length === 0) throw lacks(right, "any app");
}

/** @throws ApiError forbidden for tokens that may do nothing here */
export function requirePerson(caller: Caller): void {
  if (caller.isGateway) throw new ApiError("forbidden", "A gateway's token may only open the push socket.");
  const isCallers = caller.member === undefined && !caller.isAdmin && appsWith(caller, "read")?.length === 0;
  if (isCallers) throw new ApiError("forbidden", "A caller's token may only use the check API of gateways.");
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
