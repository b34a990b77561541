// What the person who is signed in may do. The console shows and enables by it; the control plane decides again.

import { useQuery } from "@tanstack/react-query";
import { type Session, sessionQuery } from "../api/queries.ts";

export interface Rights {
  readonly isAdmin: boolean;
  /** May change the app's policies, templates, bans and counters. */
  readonly mayEdit: boolean;
  /** May also see its audit trail, and give rights to others. */
  readonly mayOwn: boolean;
}

/** @param app undefined: no app is chosen yet */
export function rightsOf({ admin, roles }: Pick<Session, "admin" | "roles">, app: string | undefined): Rights {
  const role = app === undefined ? undefined : roles[app];
  const mayOwn = admin || role === "owner";
  return { isAdmin: admin, mayEdit: mayOwn || role === "editor", mayOwn };
}

export function useRights(app: string | undefined): Rights {
  const { data } = useQuery(sessionQuery);
  return rightsOf(data ?? { admin: false, roles: {} }, app);
}

/** @returns whether they own any app, or all */
export function ownsSomething({ admin, roles }: Pick<Session, "admin" | "roles">): boolean {
  return admin || Object.values(roles).includes("owner");
}
