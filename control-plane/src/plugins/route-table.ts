// The table of all routes: who may use each, and what each leaves behind. It is made of what the routes' own `config` says, so
// docs/security.md, the tests of every role and openapi.json have the routes that there are. Registered before the routes.

import type { RouteOptions } from "fastify";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";
import type { Caller } from "../rights/caller.ts";
import type { AppRole } from "../rights/roles.ts";
import { type Access, requireAccess } from "./authentication.ts";

/**
 * What a request that was carried out leaves behind. revision: an entry of the history, which the audit trail shows too. audit: an
 * entry of the audit trail. nothing: the route changes nothing, whatever its method says.
 */
export type Records = "revision" | "audit" | "nothing";

/**
 * What somebody is answered who has the right in another app only. refused: 403. not-found: 404, as if it did not exist. filtered: 200
 * with what belongs to their own apps.
 */
export type Strangers = "refused" | "not-found" | "filtered";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Must be stated by each route that is not GET. */
    readonly records?: Records;
    /** Must be stated by each route for a right in an app that its URL does not name. */
    readonly strangers?: Strangers;
  }
  interface FastifyInstance {
    readonly routeTable: readonly RouteRow[];
  }
}

export interface RouteRow {
  readonly method: string;
  /** With its parameters as :names. */
  readonly url: string;
  readonly access: Access;
  readonly records: Records;
  readonly strangers: Strangers;
}

export default fp(
  async (app) => {
    const rows: RouteRow[] = [];
    app.decorate("routeTable", rows);
    app.addHook("onRoute", (route) => {
      // Hidden are pages for browsers, and the answers to methods that a URL does not have.
      if (route.schema?.hide === true) return;
      for (const method of [route.method].flat()) if (method !== "HEAD") rows.push(rowOf(method, route));
    });
  },
  { name: "route-table" },
);

/** @throws Error if the route does not say what it must */
export function rowOf(method: string, { url, config }: Pick<RouteOptions, "url" | "config">): RouteRow {
  const { access = "own", records, strangers } = config ?? {};
  const missing = (field: string, of: string) =>
    new Error(`${method} ${url}: expected config.${field}, one of ${of}, got nothing (plugins/route-table.ts)`);
  if (records === undefined && method !== "GET") throw missing("records", "revision, audit, nothing");
  const namesApp = url.includes("/:app");
  const isByRight = access !== "public" && access !== "gateway" && access !== "person" && access !== "own";
  if (strangers === undefined && isByRight && !namesApp) throw missing("strangers", "refused, not-found, filtered");
  return { method, url, access, records: records ?? "nothing", strangers: strangers ?? "refused" };
}

/** Everybody who may try. A stranger is an owner of another app. */
export const askers = [
  "admin",
  "owner",
  "editor",
  "viewer",
  "caller",
  "member: owner",
  "member: editor",
  "member: viewer",
  "stranger",
  "gateway",
  "nobody",
  "expired token",
  "disabled member",
] as const;
export type Asker = (typeof askers)[number];

/**
 * What somebody is answered. yes: the request is carried out. own: it is, for what belongs to the asker; for other things the asker
 * gets what a stranger gets. The numbers are the statuses of refusals.
 */
export type Cell = "yes" | "own" | 401 | 403 | 404;

const [askedApp, otherApp] = ["asked", "other"];

/** Returns what the asker, whose roles are in one app, is answered about that app; a stranger: about another app. */
export function cellOf({ url, access, strangers }: RouteRow, asker: Asker): Cell {
  if (access === "public") return "yes";
  const caller = callerFor(asker);
  if (caller === undefined) return 401;
  try {
    requireAccess(caller, access, url.includes("/:app") ? askedApp : undefined);
  } catch (error) {
    if (error instanceof ApiError) return 403;
    throw error;
  }
  if (access === "person") return "yes";
  const isOwner = caller.isAdmin || caller.roles.get(askedApp) === "owner";
  if (access === "member" && caller.member !== undefined && !isOwner) return "own";
  return asker === "stranger" ? forStrangers[strangers] : "yes";
}

export const forStrangers: Readonly<Record<Strangers, Cell>> = { refused: 403, "not-found": 404, filtered: "own" };

/** Returns undefined if the asker's token is refused. */
function callerFor(asker: Asker): Caller | undefined {
  if (asker === "nobody" || asker === "expired token" || asker === "disabled member") return undefined;
  const [first, role = first] = asker.split(": ") as [string, AppRole?];
  const isForAll = asker === "admin" || asker === "gateway";
  const roles: [string, AppRole][] = asker === "stranger" ? [[otherApp, "owner"]] : [[askedApp, role as AppRole]];
  return {
    id: asker,
    who: asker,
    member: first === "member" ? asker : undefined,
    isGateway: asker === "gateway",
    isAdmin: asker === "admin",
    roles: new Map(isForAll ? [] : roles),
  };
}
