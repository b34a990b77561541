// Lists the history of revisions.

import type { Action } from "./entry.ts";
import type { Database, RevisionTable } from "./tables.ts";

export interface Revision {
  readonly number: number;
  readonly atMs: number;
  readonly who: string;
  /** The address that the request came from; undefined if it is not known. */
  readonly from: string | undefined;
  readonly action: Action;
  /** Undefined if the change belongs to no app. */
  readonly app: string | undefined;
  readonly policy: string | undefined;
  readonly subject: string | undefined;
}

/**
 * Lists revisions, newest first.
 * @param apps lists only revisions of these apps since they were last created; undefined lists all
 * @param before lists only revisions with a lower number; undefined lists all
 */
export async function listRevisions(
  database: Database,
  apps: readonly string[] | undefined,
  before: number | undefined,
  limit: number,
): Promise<Revision[]> {
  let query = database
    .selectFrom("revisions")
    .select(["number", "at", "who", "source", "action", "app", "policy", "subject"]);
  if (apps?.length === 0) return [];
  if (apps !== undefined) {
    query = query.where("app", "in", apps);
    // Revisions of a deleted app with the same name are left out: it may have belonged to somebody else.
    const deleted = await database
      .selectFrom("revisions")
      .select(({ fn }) => ["app", fn.max("number").as("number")])
      .where("app", "in", apps)
      .where("action", "=", "delete-app" satisfies Action)
      .groupBy("app")
      .execute();
    for (const { app, number } of deleted) {
      query = query.where((row) => row.or([row("app", "!=", app), row("number", ">", Number(number))]));
    }
  }
  if (before !== undefined) query = query.where("number", "<", before);
  const rows = await query.orderBy("number", "desc").limit(limit).execute();
  return rows.map(revisionFrom);
}

export function revisionFrom(row: Omit<RevisionTable, "before" | "after">): Revision {
  return {
    number: Number(row.number),
    atMs: Number(row.at),
    who: row.who,
    from: row.source ?? undefined,
    action: row.action as Action,
    app: row.app === "" ? undefined : row.app,
    policy: row.policy ?? undefined,
    subject: row.subject ?? undefined,
  };
}
