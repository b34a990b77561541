// Lists the history of revisions.

import { expressionBuilder } from "kysely";
import type { Action } from "./entry.ts";
import { lastDeletions } from "./history.ts";
import { appsAtOnce, behind, mostRowsOfEach } from "./pages.ts";
import type { Database, RevisionTable, Tables } from "./tables.ts";

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

export interface RevisionPage {
  readonly revisions: Revision[];
  /** Lists the next page as `before`; undefined: there are no older revisions. */
  readonly next: number | undefined;
}

const columns = ["number", "at", "who", "source", "action", "app", "policy", "subject"] as const;

/**
 * Lists revisions, newest first. A page may have fewer than the limit if they are of many apps.
 * @param apps lists only revisions of these apps since they were last created; undefined lists all
 * @param before lists only revisions with a lower number; undefined lists all
 * @param pause is called between the statements
 */
export async function listRevisions(
  database: Database,
  apps: readonly string[] | undefined,
  before: number | undefined,
  limit: number,
  pause: () => Promise<void>,
): Promise<RevisionPage> {
  const isAsked = before === undefined ? row.lit(true) : row("number", "<", before);
  if (apps === undefined) {
    const newest = database.selectFrom("revisions").select(columns).where(isAsked).orderBy("number", "desc");
    return pageFrom(await newest.limit(limit + 1).execute(), 0, limit);
  }
  const most = Math.min(limit + 1, mostRowsOfEach(apps.length));
  const rows: Row[] = [];
  /** What is older may lack some. */
  let end = 0;
  for (let i = 0; i < apps.length; i += appsAtOnce) {
    await pause();
    const some = apps.slice(i, i + appsAtOnce);
    // Revisions of a deleted app with the same name are left out: it may have belonged to somebody else.
    const isOfApp = row.and([isAsked, row("number", ">", behind(await lastDeletions(database, some)))]);
    const ofApps = database.selectFrom("apps").where("name", "in", some);
    const last = row.selectFrom("revisions").select("number").whereRef("app", "=", "name").where(isOfApp);
    const lasts = await ofApps
      .select(
        last
          .orderBy("number", "desc")
          .limit(1)
          .offset(most - 1)
          .as("number"),
      )
      .execute();
    end = Math.max(end, ...lasts.map(({ number }) => Number(number ?? 0)));
    rows.push(
      ...(await ofApps
        .crossJoin("revisions")
        .select(columns)
        .whereRef("app", "=", "name")
        .where(isOfApp)
        .where("number", ">=", end)
        .execute()),
    );
  }
  rows.sort((a, b) => Number(b.number) - Number(a.number));
  return pageFrom(
    rows.filter(({ number }) => Number(number) >= end),
    end,
    limit,
  );
}

const row = expressionBuilder<Tables, "apps" | "revisions">();

type Row = Omit<RevisionTable, "before" | "after">;

/** @param end the revision to which all were read; 0: there are no others */
function pageFrom(rows: readonly Row[], end: number, limit: number): RevisionPage {
  const revisions = rows.slice(0, limit).map(revisionFrom);
  return { revisions, next: rows.length > limit ? revisions.at(-1)?.number : end || undefined };
}

export function revisionFrom(row: Row): Revision {
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
