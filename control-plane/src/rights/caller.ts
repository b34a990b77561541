// Who sends a request, and what they may do.

import type { AppRole } from "./roles.ts";

export interface Caller {
  /** The id of the token; for those who signed in by OpenID Connect, one for all sessions of the member. Unlike names, ids are unique. */
  readonly id: string;
  /** How the history names the caller. */
  readonly who: string;
  /** The member whose token or session it is; undefined: a service's token, or a gateway's. */
  readonly member: string | undefined;
  readonly isGateway: boolean;
  /** May do everything in all apps. */
  readonly isAdmin: boolean;
  /** What the caller is in each app, if not an admin. */
  readonly roles: ReadonlyMap<string, AppRole>;
}

/**
 * What a route lets its callers do in the app that its URL names.
 * read: look at everything but tokens and members. write: change policies, templates, bans and counters. manage: change
 * tokens and members, and read the audit trail.
 */
export type Right = "read" | "write" | "manage";

const rightsOf: Readonly<Record<AppRole, readonly Right[]>> = {
  owner: ["read", "write", "manage"],
  editor: ["read", "write"],
  viewer: ["read"],
  caller: [],
};

/** Returns the roles that have this right, without admins. */
export function rolesWith(right: Right): AppRole[] {
  return (Object.keys(rightsOf) as AppRole[]).filter((role) => rightsOf[role].includes(right));
}

export function hasRight({ isAdmin, roles }: Caller, right: Right, app: string): boolean {
  const role = roles.get(app);
  return isAdmin || (role !== undefined && rightsOf[role].includes(right));
}

/** Whether a caller has some right no longer, in whatever app. */
export function hasLost(before: Caller, now: Caller): boolean {
  if (before.isAdmin) return !now.isAdmin;
  return [...before.roles].some(([app, role]) => rightsOf[role].some((right) => !hasRight(now, right, app)));
}

/** Returns the apps in which the caller has this right; undefined: in all. */
export function appsWith({ isAdmin, roles }: Caller, right: Right): readonly string[] | undefined {
  if (isAdmin) return undefined;
  return [...roles].filter(([, role]) => rightsOf[role].includes(right)).map(([app]) => app);
}

/**
 * Returns who takes turns with others where something takes long. Services of one app are one owner: whoever manages an app can make as
 * many tokens as it likes, with any names.
 */
export function ownerOf({ member, isAdmin, roles, who }: Caller): string {
  if (member !== undefined) return `member ${member}`;
  return isAdmin ? `admin ${who}` : `apps ${[...roles.keys()].sort().join()}`;
}

/** Returns who takes turns where something is short: gateways and people, then owners, and then the credentials of one owner. */
export function ownersOf(caller: Caller): readonly string[] {
  return [caller.isGateway ? "gateway" : "person", ownerOf(caller), caller.id];
}

/** As many as of a caller. */
export const ownersOfStrangers: readonly string[] = ["stranger", "", ""];
