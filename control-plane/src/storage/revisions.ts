// Lists the history of revisions.

import type { Action } from "./entry.ts";
import { appsAtOnce, newestApps } from "./pages.ts";
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

export interface RevisionPage {
  readonly revisions: Revision[];
  /** Lists the next page as `before`; undefined: there are no older revisions. */
  readonly next: number | undefined;
}

/** How many rows a statement reads, of all its apps together. */
const mostRead = 2_000;

/**
 * Lists revisions, newest first. A page may have fewer than the limit if they are of many apps.
 * @param apps lists only revisions of these apps since they were last created; undefined lists all
 * @param before lists only revisions with a lower number; undefined lists all
 */
export async function listRevisions(
  database: Database,
  apps: readonly string[] | undefined,
  before: number | undefined,
  limit: number,
): Promise<RevisionPage> {
  let query = database
    .selectFrom("revisions")
    .select(["number", "at", "who", "source", "action", "app", "policy", "subject"])
    .orderBy("number", "desc");
  if (before !== undefined) query = query.where("number", "<", before);
  if (apps === undefined) return pageFrom(await query.limit(limit + 1).execute(), 0, limit);
  const deletions = await readDeletions(database, apps);
  const { apps: some, end: newestOfOthers = 0 } =
    apps.length <= appsAtOnce ? { apps } : newestApps(await readNewest(database, apps, before, deletions));
  const most = Math.min(limit + 1, Math.floor(mostRead / some.length));
  const [first, ...others] = some.map((app) => {
    const ofApp = query.where("app", "=", app).where("number", ">", deletions.get(app) ?? 0);
    return database.selectFrom(ofApp.limit(most).as("newest")).selectAll();
  });
  const rows = (await first?.unionAll(others).execute()) ?? [];
  /** What is older may lack some. */
  let end = newestOfOthers;
  for (const app of some) {
    const numbers = rows.filter((row) => row.app === app).map(({ number }) => Number(number));
    if (numbers.length === most) end = Math.max(end, Math.min(...numbers));
  }
  rows.sort((a, b) => Number(b.number) - Number(a.number));
  return pageFrom(
    rows.filter(({ number }) => Number(number) >= end),
    end,
    limit,
  );
}

/** @returns the newest revision of each of these apps, as far as it has any */
async function readNewest(
  database: Database,
  apps: readonly string[],
  before: number | undefined,
  deletions: ReadonlyMap<string, number>,
) {
  const rows = await database
    .selectFrom("apps")
    .where("name", "in", apps)
    .select(({ selectFrom }) => {
      const ofApp = selectFrom("revisions").select("number").whereRef("app", "=", "apps.name");
      const asked = before === undefined ? ofApp : ofApp.where("number", "<", before);
      return ["name", asked.orderBy("number", "desc").limit(1).as("newest")];
    })
    .execute();
  return rows
    .map(({ name, newest }) => ({ app: name, newest: Number(newest ?? 0) }))
    .filter(({ app, newest }) => newest > (deletions.get(app) ?? 0));
}

type Row = Omit<RevisionTable, "before" | "after">;

/** @param end the revision to which all were read; 0: there are no others */
function pageFrom(rows: readonly Row[], end: number, limit: number): RevisionPage {
  const revisions = rows.slice(0, limit).map(revisionFrom);
  return { revisions, next: rows.length > limit ? revisions.at(-1)?.number : end || undefined };
}

/** Revisions of a deleted app with the same name are left out: it may have belonged to somebody else. */
async function readDeletions(database: Database, apps: readonly string[]): Promise<Map<string, number>> {
  if (apps.length === 0) return new Map();
  const deleted = await database
    .selectFrom("revisions")
    .select(({ fn }) => ["app", fn.max("number").as("number")])
    .where("app", "in", apps)
    .where("action", "=", "delete-app" satisfies Action)
    .groupBy("app")
    .execute();
  return new Map(deleted.map(({ app, number }) => [app, Number(number)]));
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
