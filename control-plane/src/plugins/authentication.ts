// Who is asking. Every route needs a token of an operator unless it says otherwise, so that a route somebody forgot to
// think about is closed and not open.

import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";
import { findToken, type Role } from "../storage/tokens.ts";
import { hashToken } from "../tokens/token.ts";

/** Who may use a route: anybody, operators (any role but gateway), or gateways alone. */
export type Access = "public" | "operator" | "gateway";

export interface Caller {
  /** The token's name. */
  readonly name: string;
  readonly role: Role;
  readonly app: string | undefined;
}

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
      const access = request.is404 ? "public" : (request.routeOptions.config.access ?? "operator");
      if (access === "public") return;
      const caller = await identify(request);
      if ((caller.role === "gateway") !== (access === "gateway")) {
        const only = access === "gateway" ? "only a gateway may" : "a gateway may not";
        throw new ApiError("forbidden", `The token has the role ${caller.role}: ${only} use this URL.`);
      }
      request.caller = caller;
    });

    async function identify(request: FastifyRequest): Promise<Caller> {
      const token = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
      if (token === undefined) throw unauthorized("No bearer token came with the request.");
      const record = await findToken(app.database, hashToken(token));
      if (record === undefined) throw unauthorized("The token is unknown.");
      if (record.expiresAtMs !== undefined && record.expiresAtMs <= now()) throw unauthorized("The token has expired.");
      return { name: record.name, role: record.role, app: record.app };
    }
  },
  { name: "authentication", dependencies: ["database", "error-responses"] },
);

/** @throws ApiError unauthorized on a route that let nobody in particular through */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === undefined) throw unauthorized("No bearer token came with the request.");
  return request.caller;
}

function unauthorized(detail: string): ApiError {
  return new ApiError("unauthorized", detail, {}, { "www-authenticate": "Bearer" });
}
